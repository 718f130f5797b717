// A saved plan: its commands can be copied, and it can be printed.
import { connectActions } from "./actions.js";

connectActions();
