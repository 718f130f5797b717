// Fields of the form: what each of them does to the question when it changes.
import { AT_ONCE_MS, TYPING_MS, changed, exact } from "./question.js";

export function connectFields(form) {
  const largest = form.querySelector("#largest");
  const context = form.querySelector("#context_tokens");
  largest.addEventListener("change", () => {
    context.disabled = largest.checked;
    if (!largest.checked && context.value === "") context.value = context.list.options[1].value;
    changed(form, largest, AT_ONCE_MS);
  });
  for (const radio of form.querySelectorAll("[name=engine]")) {
    radio.addEventListener("change", () => {
      for (const part of form.querySelectorAll("[data-engine]")) {
        part.disabled = part.hidden = part.dataset.engine !== radio.value;
      }
      changed(form, radio, AT_ONCE_MS);
    });
  }
  for (const control of form.querySelectorAll("[name]:not([type=hidden], [type=radio], [role=combobox])")) {
    const event = control instanceof HTMLSelectElement ? "change" : "input";
    control.addEventListener(event, () => changed(form, control, event === "change" ? AT_ONCE_MS : TYPING_MS));
  }
  for (const control of form.querySelectorAll("[data-scaled]")) {
    const stated = control.nextElementSibling;
    control.dataset.exact = stated.value;
    control.addEventListener("input", () => {
      stated.value = exact(control);
      changed(form, control);
    });
  }
}
