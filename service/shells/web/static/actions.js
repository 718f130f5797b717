// Buttons of an answer: copying, sharing and saving.

export function connectActions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.copy) copy(button, document.getElementById(button.dataset.copy).textContent);
    else if (button?.dataset.share !== undefined) copy(button, location.href);
    else if (button?.dataset.save) save(button);
    else if (button?.dataset.print !== undefined) print();
  });
}

async function copy(button, text) {
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // without access to the clipboard, as on an address without TLS, the text is at least selected
    const shown = document.getElementById(button.dataset.copy) ?? button.parentElement.querySelector(".outcome");
    if (!button.dataset.copy) shown.textContent = text;
    getSelection().selectAllChildren(shown);
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = before), 2000);
}

async function save(button) {
  const outcome = button.parentElement.querySelector(".outcome");
  button.disabled = true;
  outcome.textContent = "Saving…";
  try {
    const response = await fetch("/plans", {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: button.dataset.save,
    });
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? response.statusText);
    const link = document.createElement("a");
    link.href = response.headers.get("location");
    link.textContent = "Open the saved plan";
    outcome.replaceChildren("Saved. ", link);
  } catch (failure) {
    outcome.textContent = `Not saved: ${failure.message}`;
  }
  button.disabled = false;
}
