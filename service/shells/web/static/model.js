// The model and its quantisation: two controls, one parameter.
import { AT_ONCE_MS, changed } from "./question.js";
import { modelsLike } from "./sources.js";

export function connectModel(form) {
  const input = form.querySelector("#model");
  const select = form.querySelector("#quant");
  const field = form.querySelector("[data-quant]");
  let asked = 0;

  const offer = async (choose) => {
    const mine = (asked += 1);
    const [name, quant] = input.value.trim().split(":");
    const model = (await modelsLike(name)).find((found) => found.name === name);
    if (mine !== asked) return;
    field.hidden = !model;
    if (!model) return;
    select.replaceChildren(...model.quants.map(optionOf));
    const usual = model.quants.find((found) => found.quant === (quant || usualQuant(model)));
    if (usual) select.value = usual.reference;
    else select.selectedIndex = -1;
    if (choose && usual) {
      input.value = usual.reference;
      changed(form, input, AT_ONCE_MS);
    }
  };

  input.addEventListener("input", () => offer(false));
  input.addEventListener("chosen", () => offer(true));
  select.addEventListener("change", () => {
    if (select.value === "") return;
    input.value = select.value;
    changed(form, select, AT_ONCE_MS);
  });
}

// what a name without a quantisation means to the service, where the model has that
function usualQuant(model) {
  const names = model.quants.map((found) => found.quant);
  return ["Q4_K_M", "MXFP4"].find((name) => names.includes(name)) ?? names[0];
}

function optionOf(quant) {
  const size = (quant.tensor_data_bytes / 1e9).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  return new Option(`${quant.quant} · ${size} GB`, quant.reference);
}
