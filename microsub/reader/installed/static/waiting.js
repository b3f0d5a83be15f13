// Marks that were made without a network, and undoing them, wait in this browser, each user's by themselves, and are sent
// when it is back.
const MOST = 500;
const FORMS = ["change", "mark-all", "undo"];
const about = document.getElementById("channels").dataset;
const place = `marks of ${about.user}`;

function waiting() {
  return JSON.parse(localStorage.getItem(place) || "[]");
}

function remember(kept) {
  localStorage.setItem(place, JSON.stringify(kept));
}

/** Keep what a form would send; its name and the words for that, or null where it isn't a mark, or too many wait. */
export function keep(form, body) {
  const kept = waiting();
  if (!FORMS.includes(form.id) || kept.length >= MOST) {
    return null;
  }
  const token = form.elements[0].name; // which is of this page
  const name = `${Date.now()}.${kept.length}`;
  remember([...kept, { name, form: form.id, fields: [...body].filter(([field]) => field !== token) }]);
  return { name, text: about.waits };
}

/** Drop what waits by that name; the words for that, or nothing where it has been sent. */
export function forget(name) {
  const kept = waiting();
  const left = kept.filter((one) => one.name !== name);
  remember(left);
  return left.length < kept.length ? about.undone : "";
}

/** Send what waits, in its order, by `post`, which gives nothing where the network is still gone. */
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
