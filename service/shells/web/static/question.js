// The form as the address of its question: what is empty or has its default is left out.

export function addressOf(form) {
  const stated = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const control = form.elements.namedItem(name);
    const initial = control instanceof RadioNodeList ? control[0]?.dataset?.default : control?.dataset?.default;
    const text = value.trim();
    if (text === "" || text === initial) continue;
    for (const line of control?.dataset?.lines === undefined ? [text] : text.split("\n")) {
      if (line.trim()) stated.append(name, line.trim());
    }
  }
  const query = stated.toString();
  return query ? `/?${query}` : "/?model=";
}

// a number in the unit of a field as the contract states it; the very number that came from there where it is unchanged
export function exact(input) {
  if (input.value.trim() === "" || !Number.isFinite(Number(input.value))) return input.value.trim();
  if (input.value === input.defaultValue && input.dataset.exact) return input.dataset.exact;
  const value = Number(input.value) * Number(input.dataset.factor ?? 1);
  return String(input.dataset.factor && Number(input.dataset.factor) > 1 ? Math.round(value) : value);
}

// how long to wait for more before asking: not at all after a choice, longer for a name that is being typed
export const AT_ONCE_MS = 0;
export const TYPING_MS = 250;
export const NAMING_MS = 600;

export function changed(form, control, patienceMs = TYPING_MS) {
  form.dispatchEvent(new CustomEvent("question-changed", { detail: { control, patienceMs } }));
}
