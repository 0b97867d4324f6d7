// tfjs_peer.js MODULES MODEL INPUT.json: runs a TensorFlow.js model on its CPU backend and prints the outputs as JSON, a list of
// {name, shape, data} in the model's order. MODULES is the folder node_modules that has @tensorflow/tfjs; MODEL is model.json or a
// wrapped model (NAME.min.js); INPUT.json has {shape, dtype, data}.
const fs = require('fs');
const path = require('path');

const [modules, model, input] = process.argv.slice(2);
const tf = require(path.resolve(modules, '@tensorflow/tfjs'));

function read(file) {
  return file.endsWith('.js') ? require(path.resolve(file)) : JSON.parse(fs.readFileSync(file));
}

function artifacts() {
  const topology = read(model);
  const shards = [], specs = [];
  for (const group of topology.weightsManifest) {
    specs.push(...group.weights);
    for (const shard of group.paths) {
      const file = path.join(path.dirname(model), shard);
      shards.push(model.endsWith('.js') ? Buffer.from(read(`${file.replace(/\.bin$/, '')}.min.js`), 'base64') : fs.readFileSync(file));
    }
  }
  const bytes = Buffer.concat(shards);
  const signature = (topology.userDefinedMetadata || {}).signature || topology.signature;
  return {
    modelTopology: topology.modelTopology, weightSpecs: specs, signature, format: topology.format,
    weightData: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length),
  };
}

async function main() {
  await tf.setBackend('cpu');
  const made = artifacts(), given = JSON.parse(fs.readFileSync(input));
  const graph = made.modelTopology.node !== undefined;
  // The names of the outputs are those of nodes that nothing reads, as in the converter.
  const load = tf.io.fromMemory(made);
  const network = graph ? await tf.loadGraphModel(load) : await tf.loadLayersModel(load);
  const x = tf.tensor(given.data, given.shape, given.dtype);
  let names = network.outputNames;
  if (graph) {
    const nodes = made.modelTopology.node, used = new Set();
    for (const n of nodes) for (const i of n.input || []) used.add(i.split(':')[0]);
    names = nodes.filter(n => !used.has(n.name) && n.op !== 'Const' && n.op !== 'NoOp').map(n => n.name);
  }
  let results = graph ? network.execute(x, names) : network.predict(x);
  results = Array.isArray(results) ? results : [results];
  console.log(JSON.stringify(results.map((r, i) => ({name: names[i], shape: r.shape, data: Array.from(r.dataSync())}))));
}

main();
