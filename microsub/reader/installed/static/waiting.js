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

/** Call `show(id, act, on)` for each post that waiting marks change, the oldest first. */
export function showWaiting(show) {
  for (const { fields } of waiting().filter(({ form }) => form === "change")) {
    const given = Object.fromEntries(fields);
    for (const name of Object.keys(given).filter((field) => field in ACTS)) {
      (given.page || given[name]).split(",").forEach((id) => show(id, ...ACTS[name]));
    }
  }
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
