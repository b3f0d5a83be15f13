// Asks the browser for the permission to show messages and for their address; the form sends that to the server.
const about = document.getElementById("device");
const form = about.closest("form");
const isAble = "Notification" in window && "PushManager" in window && "serviceWorker" in navigator;

/** Show this one of the messages above the form. */
function say(id) {
  for (const one of document.querySelectorAll("#said > p")) {
    one.hidden = one.id !== id;
  }
}

/** The address for messages of this server; an address for another key is unsubscribed first. */
async function subscribe() {
  const { pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: about.dataset.key };
  try {
    return await pushManager.subscribe(options);
  } catch (error) {
    const former = await pushManager.getSubscription();
    if (error.name !== "InvalidStateError" || !former) {
      throw error;
    }
    await former.unsubscribe();
    return pushManager.subscribe(options);
  }
}

async function ask() {
  if ((await Notification.requestPermission()) !== "granted") {
    say("refused");
    return;
  }
  say("asking");
  try {
    const { endpoint, keys } = (await subscribe()).toJSON();
    const { address, public: key, secret } = form.elements;
    [address.value, key.value, secret.value] = [endpoint, keys.p256dh, keys.auth];
    form.submit();
  } catch (error) {
    console.info(error);
    say("failed");
  }
}

if ("told" in about.dataset) {
  // The address is known; the form only changes the channels.
} else if (isAble) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
} else {
  say("unable");
  form.querySelector("button").disabled = true;
}
