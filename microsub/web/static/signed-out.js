// Forgets what this tab kept for the user who has just signed out, such as the names of unfolded channels' feeds.
// Marks that wait for a network stay, as they are sent when this user is back.
"use strict";

sessionStorage.clear();
