// Marks that were made without a network wait in this browser, each user's by themselves, and are sent when it is back.
const MOST = 500;
const about = document.getElementById("channels").dataset;
const place = `marks of ${about.user}`;

function waiting() {
  return JSON.parse(localStorage.getItem(place) || "[]");
}

/** Keep a mark for later, and give the words for that; nothing where it isn't one, or too many wait. */
export function keep(form, fields) {
  const kept = waiting();
  if (form.id !== "change" || kept.length >= MOST) {
    return "";
  }
  localStorage.setItem(place, JSON.stringify([...kept, fields]));
  return about.waits;
}

/** Send what waits, in its order, by `post`, which gives nothing where the network is still gone. */
export async function sendWaiting(form, post) {
  for (let kept = waiting(); kept.length; kept = waiting()) {
    if (!(await post(form, kept[0]))) {
      return;
    }
    localStorage.setItem(place, JSON.stringify(waiting().slice(1)));
  }
}
