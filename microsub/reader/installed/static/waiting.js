// Marks and undos that were made offline are kept in this browser, separately for each user, and are sent when the
// network is back.
const MOST = 500;
const FORMS = ["change", "mark-all", "undo"];
const about = document.getElementById("channels")?.dataset ?? {};
const place = `marks of ${about.user}`;

function waiting() {
  return JSON.parse(localStorage.getItem(place) || "[]");
}

/** Whether anything waits for the network. */
export const hasWaiting = () => waiting().length > 0;

function remember(kept) {
  localStorage.setItem(place, JSON.stringify(kept));
}

/** Keep a form's data; returns its name and a message, or null if it isn't a mark, or too many are waiting. */
export function keep(form, body) {
  const kept = waiting();
  if (!FORMS.includes(form.id) || kept.length >= MOST) {
    return null;
  }
  const token = form.querySelector("[type=hidden]").name; // only valid for this page
  const name = `${Date.now()}.${kept.length}`;
  remember([...kept, { name, form: form.id, fields: [...body].filter(([field]) => field !== token) }]);
  return { name, text: about.waits };
}

/** Drop waiting data by its name; returns a message, or nothing if it has been sent. */
export function forget(name) {
  const kept = waiting();
  const left = kept.filter((one) => one.name !== name);
  remember(left);
  return left.length < kept.length ? about.undone : "";
}

const ACTS = { read: ["read", true], unread: ["read", false], above: ["read", true], all: ["read", true], save: ["save", true], unsave: ["save", false] };

/** The ids of the posts of a channel that this page shows; All has those of every channel. */
function shownOf(channel) {
  const open = document.getElementById("feed")?.dataset.channel;
  const posts = [...document.querySelectorAll(".post")].filter((post) => channel === "global" || (post.dataset.in ?? open) === channel);
  return posts.map((post) => post.dataset.id);
}

/** What waiting data does to posts of this page: lists of ids, with an action and whether it is on. */
function effects({ form, fields }) {
  const given = Object.fromEntries(fields);
  if (form === "mark-all") {
    return given.older || given.source ? [] : [[shownOf(given.channel), "read", true]]; // of some posts, nobody here knows which
  }
  const names = form === "change" ? Object.keys(given).filter((field) => field in ACTS) : [];
  return names.map((name) => [(given.page || given[name]).split(","), ...ACTS[name]]);
}

/** Call `show(id, act, on)` for each post that waiting marks change, the oldest first. */
export function showWaiting(show) {
  waiting().flatMap(effects).forEach(([ids, act, on]) => ids.forEach((id) => show(id, act, on)));
}

/** The ids of this page's posts that waiting data of that name marks. */
export function waitingIds(name) {
  return waiting().filter((one) => one.name === name).flatMap(effects).flatMap(([ids]) => ids);
}

/** Send waiting data in order by `post`, which returns nothing if the network is still unavailable. */
export async function sendWaiting(post) {
  for (let kept = waiting(); kept.length; kept = waiting()) {
    const [first] = kept;
    const form = document.getElementById(first.form); // not every page has all of them
    if (!form || !(await post(form, first))) {
      return;
    }
    forget(first.name);
  }
}
