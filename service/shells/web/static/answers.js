// Fetches answers and puts them in their place; an answer that is no longer asked for is not waited for.
const CHART_MS = 400;

let pending = new AbortController();
let pendingChart = new AbortController();

export async function showAnswer(address) {
  const answer = document.getElementById("answer");
  const text = await fetched(`/answer${new URL(address, location).search}`, answer, latest());
  if (text === null) return;
  const kept = openDetails(answer);
  answer.replaceChildren(...parsed(text).body.childNodes);
  reopen(answer, kept);
  announce();
  showChart(CHART_MS);
}

// the chart takes longer than the answer, which does not wait for it; it is not asked for while the question changes
export async function showChart(waitMs = 0) {
  const place = document.querySelector("[data-chart]");
  await new Promise((resolve) => setTimeout(resolve, waitMs));
  // another answer that is on its way brings a chart of its own
  if (!place?.isConnected || document.getElementById("answer").hasAttribute("aria-busy")) return;
  pendingChart = new AbortController();
  const text = await fetched(place.dataset.chart, place, pendingChart.signal);
  if (text !== null) place.replaceChildren(...parsed(text).body.childNodes);
}

export async function showPage(address) {
  const main = document.querySelector("main");
  const text = await fetched(address, document.getElementById("answer"), latest());
  if (text === null) return false;
  const page = parsed(text);
  document.title = page.title;
  main.replaceWith(page.querySelector("main"));
  announce();
  document.getElementById("answer").focus({ preventScroll: true });
  showChart();
  return true;
}

// gives up what was asked for before
function latest() {
  pending.abort();
  pendingChart.abort();
  pending = new AbortController();
  return pending.signal;
}

async function fetched(address, place, signal) {
  place.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(address, { headers: { accept: "text/html" }, signal });
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).detail ?? response.statusText);
    return await response.text();
  } catch (failure) {
    if (signal.aborted) return null;
    failed(place, failure);
    return null;
  } finally {
    if (!signal.aborted) place.removeAttribute("aria-busy");
  }
}

function failed(place, failure) {
  const message = document.createElement("p");
  message.className = "failure";
  message.setAttribute("role", "alert");
  message.textContent = `The service did not answer: ${failure.message}`;
  place.querySelector(".failure")?.remove();
  place.prepend(message);
}

function parsed(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

function announce() {
  const { summary, title, peek } = document.querySelector("#answer > article").dataset;
  document.getElementById("announcement").textContent = summary;
  document.getElementById("peek").textContent = peek;
  document.title = title;
  markRefused();
}

// which fields a problem is about
export function markRefused() {
  const refused = document.querySelector("#answer > article").dataset.refused.split(" ");
  for (const control of document.querySelectorAll("#question [name]")) {
    const row = control.closest("[data-card]");
    const place = row ? `gpus/${[...row.parentElement.children].indexOf(row)}` : control.name;
    const beside = control.parentElement.querySelector("[data-scaled], [data-part=name]");
    const seen = control.type === "hidden" ? beside : control;
    if (refused.includes(place) || refused.includes(control.name)) seen.setAttribute("aria-invalid", "true");
    else seen.removeAttribute("aria-invalid");
  }
}

function openDetails(place) {
  return [...place.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent);
}

function reopen(place, kept) {
  for (const summary of place.querySelectorAll("details > summary")) {
    if (kept.includes(summary.textContent)) summary.parentElement.open = true;
  }
}
