// Forgets what this tab kept for the user who has just signed out, such as the names of unfolded channels' feeds.
// And what this browser kept of all users' posts. Marks that wait for a network stay, as they are sent when this user is back.
"use strict";

sessionStorage.clear();
self.caches?.keys().then((names) => names.filter((name) => name.startsWith("posts of ")).forEach((name) => caches.delete(name)));
