// Keeps question, address and answer together: whatever changes in the form is asked, shown and put into the address.
import { connectActions } from "./actions.js";
import { markRefused, showAnswer, showChart, showPage } from "./answers.js";
import { connectCards } from "./cards.js";
import { connectComboboxes } from "./combobox.js";
import { connectFields } from "./fields.js";
import { connectModel } from "./model.js";
import { addressOf } from "./question.js";

let waiting;
let lastControl;
let shown = location.pathname + location.search;

function ask(form) {
  clearTimeout(waiting);
  showAnswer(addressOf(form));
}

// one entry of the history for each control that is changed, however many letters that takes
function remember(form, control) {
  const address = addressOf(form);
  if (address === shown) return;
  history[control && control === lastControl ? "replaceState" : "pushState"](null, "", address);
  lastControl = control;
  shown = address;
}

function connect() {
  const form = document.getElementById("question");
  connectFields(form);
  connectModel(form);
  connectCards(form);
  connectComboboxes(form);
  markRefused();
  form.addEventListener("question-changed", (event) => {
    const { control, patienceMs } = event.detail;
    remember(form, control);
    clearTimeout(waiting);
    waiting = setTimeout(ask, patienceMs, form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    remember(form);
    ask(form);
  });
}

async function visit(address) {
  clearTimeout(waiting);
  lastControl = undefined;
  shown = location.pathname + location.search;
  if (await showPage(address)) connect();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-question]");
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  visit(link.href);
});
// a jump within the page is one in the history too, but asks nothing new
addEventListener("popstate", () => location.pathname + location.search !== shown && visit(location.href));

connectActions();
connect();
showChart();
