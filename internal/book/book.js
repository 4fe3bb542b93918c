"use strict";

// Search: the sections of all pages are loaded when the field is first used. Each word has to be in the
// section; words in titles and headings count more than those in its text.
const box = document.querySelector("search input");
const list = document.querySelector("search ol");
let loading;

function load() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "sections.js";
    script.onload = () => done(window.sections.map(([link, title, heading, text]) =>
      ({ link, title, heading, text, lower: [title, heading, text].map((s) => s.toLowerCase()), words: ` ${plain(`${title} ${heading} ${text}`)} ` })));
    script.onerror = failed;
    document.head.append(script);
  });
  return loading;
}

// plain leaves the letters and digits of words.
const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();

function score(section, words) {
  let sum = 0;
  for (const word of words) {
    const [title, heading, text] = section.lower.map((s) => s.indexOf(word));
    if (title < 0 && heading < 0 && text < 0) return 0;
    if (heading >= 0) sum += heading === 0 ? 40 : 20;
    if (title >= 0) sum += section.heading ? 5 : 30;
    if (text >= 0) sum += 3 + (text < 200 ? 2 : 0);
    if (section.words.includes(` ${plain(word)} `)) sum += 6;
  }
  return sum;
}

// marked appends a text to an element, with the words in it marked.
function marked(element, text, words) {
  const lower = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    let next = text.length, length = 0;
    for (const word of words) {
      const i = lower.indexOf(word, at);
      if (i >= 0 && i < next) [next, length] = [i, word.length];
    }
    element.append(text.slice(at, next));
    if (length) {
      const mark = document.createElement("mark");
      mark.textContent = text.slice(next, next + length);
      element.append(mark);
    }
    at = next + length;
  }
}

async function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) { list.hidden = true; return; }
  const sections = await load();
  if (words.join(" ") !== box.value.toLowerCase().split(/\s+/).filter(Boolean).join(" ")) return; // typed on
  const best = sections.map((section) => [score(section, words), section]).filter(([s]) => s).sort(([a], [b]) => b - a).slice(0, 12);
  list.replaceChildren(...best.map(([, section]) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = section.link;
    const name = document.createElement("b"), text = document.createElement("span");
    marked(name, section.heading ? `${section.title}: ${section.heading}` : section.title, words);
    const first = Math.min(...words.map((w) => section.lower[2].indexOf(w)).filter((i) => i >= 0), section.text.length);
    const from = first < 60 || first === section.text.length ? 0 : section.text.lastIndexOf(" ", first - 40) + 1;
    marked(text, (from ? "… " : "") + section.text.slice(from, from + 160), words);
    link.append(name, text);
    item.append(link);
    return item;
  }));
  if (!best.length) list.append(Object.assign(document.createElement("li"), { textContent: "No page has all of these words." }));
  list.hidden = false;
}

box.addEventListener("focus", load);
box.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (event.key === "/" && document.activeElement !== box && !event.ctrlKey && !event.metaKey) box.focus();
  else if (event.key === "Escape" && !list.hidden) { list.hidden = true; box.focus(); }
  else if (event.key === "ArrowDown" && !list.hidden) links[Math.min(at + 1, links.length - 1)]?.focus();
  else if (event.key === "ArrowUp" && at >= 0) (links[at - 1] ?? box).focus();
  else if (event.key === "Enter" && document.activeElement === box && links.length) links[0].click();
  else return;
  event.preventDefault();
});
document.addEventListener("click", (event) => { if (!event.target.closest("search")) list.hidden = true; });

// Commands can be copied.
if (navigator.clipboard) for (const code of document.querySelectorAll("pre > code.language-sh")) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  code.parentElement.append(button);
}

// On narrow screens the table of contents is behind a button.
const menu = document.querySelector(".menu");
menu.addEventListener("toggle", () => document.body.classList.toggle("contents", menu.open));
