// Creates and uses passkeys (https://www.w3.org/TR/webauthn-2/) for the forms that need them.
// A form requests a challenge from the server, passes it to the browser, and sends the result as two of its fields.
"use strict";

function bytes(text) {
  const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

function text(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

function listed(credentials) {
  return (credentials || []).map((one) => ({ ...one, id: bytes(one.id) }));
}

function readable(publicKey) {
  const options = { ...publicKey, challenge: bytes(publicKey.challenge) };
  if (publicKey.user) {
    options.user = { ...publicKey.user, id: bytes(publicKey.user.id) };
  }
  if (publicKey.excludeCredentials) {
    options.excludeCredentials = listed(publicKey.excludeCredentials);
  }
  if (publicKey.allowCredentials) {
    options.allowCredentials = listed(publicKey.allowCredentials);
  }
  return options;
}

function sendable(credential) {
  const response = {};
  for (const part of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[part]) {
      response[part] = text(credential.response[part]);
    }
  }
  if (credential.response.getTransports) {
    response.transports = credential.response.getTransports();
  }
  return { id: credential.id, rawId: text(credential.rawId), type: credential.type, response };
}

class Refused extends Error {}

// The page's texts for failures, in its language.
function words(part) {
  return JSON.parse(part.dataset.words);
}

async function challenge(form, part) {
  const fields = new FormData(form);
  fields.set(part.dataset.tokenField, part.dataset.token);
  const reply = await fetch(part.dataset.begin, { method: "POST", body: new URLSearchParams(fields) });
  if (!reply.ok) {
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const alert = page.querySelector("[role=alert]");
    throw new Refused(alert ? alert.textContent : words(part).refused);
  }
  return reply.json();
}

async function answer(form, part) {
  const asked = await challenge(form, part);
  const publicKey = readable(asked.options.publicKey);
  const credential =
    part.dataset.passkey === "make"
      ? await navigator.credentials.create({ publicKey })
      : await navigator.credentials.get({ publicKey });
  form.elements.secret.value = asked.secret;
  form.elements.answer.value = JSON.stringify(sendable(credential));
}

function prepare(part) {
  const form = part.closest("form");
  const button = part.querySelector("button");
  const alert = part.querySelector("[role=alert]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    alert.hidden = true;
    try {
      await answer(form, part);
      form.submit();
    } catch (problem) {
      alert.textContent =
        problem instanceof Refused ? problem.message : words(part)[problem.name] || words(part).other;
      alert.hidden = false;
      button.disabled = false;
    }
  });
  part.hidden = false;
}

if (window.PublicKeyCredential) {
  document.querySelectorAll("[data-passkey]").forEach(prepare);
}
