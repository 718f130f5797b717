// The rows of cards: each keeps the parameter that states it in its hidden input.
import { connectCombobox } from "./combobox.js";
import { AT_ONCE_MS, changed, exact } from "./question.js";

let added = 0;

export function connectCards(form) {
  const list = form.querySelector("#cards");
  for (const row of list.children) connectRow(form, row);
  for (const button of form.querySelectorAll("[data-add]")) {
    button.addEventListener("click", () => {
      const row = newRow(button.dataset.add);
      list.append(row);
      connectRow(form, row);
      for (const box of row.querySelectorAll(".combobox")) connectCombobox(form, box);
      row.querySelector("[data-part=name]").focus();
    });
  }
}

function newRow(kind) {
  const template = document.getElementById(kind === "own" ? "own-card-row" : "card-row");
  const row = template.content.firstElementChild.cloneNode(true);
  const mark = `card-added-${(added += 1)}`;
  for (const element of row.querySelectorAll("*")) {
    for (const name of ["id", "for", "aria-controls"]) {
      const value = element.getAttribute(name);
      if (value) element.setAttribute(name, value.replace("card-new", mark));
    }
  }
  return row;
}

function connectRow(form, row) {
  for (const control of row.querySelectorAll("[data-part]")) {
    control.addEventListener(control instanceof HTMLSelectElement ? "change" : "input", () => {
      row.querySelector("[name=gpus]").value = stated(row);
      if (control.getAttribute("role") !== "combobox") changed(form, control);
    });
  }
  row.querySelector("[data-remove]").addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("[data-part=name]") ?? form.querySelector("[data-add]")).focus();
    changed(form, row, AT_ONCE_MS);
  });
}

// "2x rtx-3090" where the name says all, else the object of the request as JSON
function stated(row) {
  const parts = new Map([...row.querySelectorAll("[data-part]")].map((input) => [input.dataset.part, input]));
  const name = parts.get("name").value.trim();
  const count = Number(parts.get("count").value || 1);
  const figures = {};
  for (const [field, input] of parts) {
    const text = field === "name" || field === "count" ? "" : exact(input);
    if (text !== "" && text !== input.dataset.default) figures[field] = input.type === "number" ? Number(text) : text;
  }
  if (row.dataset.card === "own") return own(name, count, figures, row);
  if (name === "") return "";
  if (Object.keys(figures).length === 0) return count === 1 ? name : `${count}x ${name}`;
  return JSON.stringify({ gpu: name, count, ...figures });
}

function own(name, count, figures, row) {
  if (name === "" && Object.keys(figures).length === 0) return "";
  const card = { name };
  const rest = {};
  for (const [field, value] of Object.entries(figures)) {
    const describes = row.querySelector(`.own [data-part=${CSS.escape(field)}]`);
    (describes ? card : rest)[field] = value;
  }
  return JSON.stringify({ gpu: card, count, ...rest });
}
