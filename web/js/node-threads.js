/* Worker threads of Node. In browsers, `imports` of package.json chooses no-native.js, and Worker is global. */
export { parentPort, Worker } from 'node:worker_threads';
