// The bar with the player on pages where nothing is read, such as those of the account.
import { prepareListening } from "./listening.js";

prepareListening();
