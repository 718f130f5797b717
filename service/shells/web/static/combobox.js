// A text field that suggests names of the catalogue (WAI-ARIA combobox with a list); what is typed counts as it stands.
import { SOURCES } from "./sources.js";
import { AT_ONCE_MS, NAMING_MS, changed } from "./question.js";

const SETTLED_MS = 120;
const SHOWN = 40;

export function connectComboboxes(form) {
  for (const box of form.querySelectorAll(".combobox")) connectCombobox(form, box);
}

export function connectCombobox(form, box) {
  const input = box.querySelector("input");
  const list = box.querySelector("[role=listbox]");
  const source = SOURCES[box.dataset.source];
  let active = -1;
  let waiting;
  let asked = 0;

  const close = () => {
    clearTimeout(waiting);
    asked += 1;
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (option) => {
    input.value = option.dataset.value;
    close();
    input.dispatchEvent(new Event("input", { bubbles: true }));
    close();
    input.dispatchEvent(new CustomEvent("chosen", { bubbles: true }));
    changed(form, input, AT_ONCE_MS);
  };
  const mark = (index) => {
    const options = [...list.querySelectorAll("[role=option]")];
    if (options.length === 0) return;
    active = (index + options.length) % options.length;
    options.forEach((option, at) => option.setAttribute("aria-selected", String(at === active)));
    input.setAttribute("aria-activedescendant", options[active].id);
    options[active].scrollIntoView({ block: "nearest" });
  };
  const open = async (text) => {
    const mine = (asked += 1);
    const found = await source(text);
    if (mine !== asked || document.activeElement !== input) return;
    list.replaceChildren(...found.slice(0, SHOWN).map((entry, index) => option(entry, `${list.id}-${index}`, input.value)));
    if (found.length === 0) list.append(note("Nothing is called so"));
    if (found.length > SHOWN) list.append(note(`and ${found.length - SHOWN} more: type on`));
    list.hidden = false;
    active = -1;
    input.setAttribute("aria-expanded", "true");
  };

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(open, SETTLED_MS, input.value);
    changed(form, input, NAMING_MS);
  });
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const options = list.hidden ? [] : [...list.querySelectorAll("[role=option]")];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open(event.altKey ? input.value : "");
      else mark(event.key === "ArrowDown" ? active + 1 : active < 0 ? -1 : active - 1);
    } else if (event.key === "Enter") {
      if (!list.hidden) event.preventDefault();
      if (options[active]) choose(options[active]);
      else close();
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
  // pressing must not take the focus from the field, which would close the list
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const chosen = event.target.closest("[role=option]");
    if (chosen) choose(chosen);
  });
}

function option(entry, id, current) {
  const item = document.createElement("li");
  item.id = id;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", String(entry.value === current));
  item.dataset.value = entry.value;
  const name = document.createElement("span");
  name.textContent = entry.value;
  const about = document.createElement("small");
  about.textContent = entry.about;
  item.append(name, about);
  return item;
}

function note(text) {
  const item = document.createElement("li");
  item.className = "note";
  item.setAttribute("role", "presentation");
  item.textContent = text;
  return item;
}
