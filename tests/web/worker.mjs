/* A worker that does what page.mjs does. */
import { check } from './page.mjs';

postMessage(await check().catch((error) => `${error}`));
