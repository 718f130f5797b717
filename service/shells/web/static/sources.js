// What the comboboxes suggest, from the catalogues of the service.

async function found(path, text) {
  const query = new URLSearchParams({ search: text.replaceAll(":", " ").trim() });
  const response = await fetch(`${path}?${query}`, { headers: { accept: "application/json" } });
  return response.ok ? response.json() : [];
}

const billions = (count) => `${(count / 1e9).toLocaleString("en", { maximumSignificantDigits: 3 })}B`;

export async function modelsLike(text) {
  return (await found("/models", text)).filter((model) => model.kind === "model");
}

function aboutModel(model) {
  const active = model.active_parameters < model.parameters ? `, ${billions(model.active_parameters)} active` : "";
  return `${billions(model.parameters)}${active} · ${model.quants.length} quants`;
}

function aboutCard(card) {
  const facts = [card.vendor];
  if (card.vram_bytes) facts.push(`${card.vram_bytes / 2 ** 30} GiB`);
  if (card.memory_bandwidth_bytes_per_s) facts.push(`${Math.round(card.memory_bandwidth_bytes_per_s / 1e9)} GB/s`);
  return facts.join(" · ");
}

// names that start like the text first, then those of which a word does
function closest(entries, text) {
  const wanted = text.trim().toLowerCase();
  const distance = ({ value }) => {
    if (value.startsWith(wanted)) return 0;
    return value.split(/[-_ .]/).some((word) => word.startsWith(wanted)) ? 1 : 2;
  };
  return entries.sort((one, other) => distance(one) - distance(other));
}

export const SOURCES = {
  models: async (text) => {
    const [name] = text.split(":");
    return closest((await modelsLike(name)).map((model) => ({ value: model.name, about: aboutModel(model) })), name);
  },
  gpus: async (text) => {
    const cards = (await found("/gpus", text)).map((card) => ({ value: card.slug, about: `${card.name} · ${aboutCard(card)}` }));
    return closest(cards, text);
  },
};
