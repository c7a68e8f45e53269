// Speaks through the official SDKs: reads a JSON array of jobs {api, base, key,
// stream, request} on stdin, sends them one after the other, and writes an
// array of what each SDK made of the answer: {cache, event, object} or {error}.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// The packages live in a node_modules folder of its own (argv[2]), not beside this file.
const from = createRequire(process.argv[2] + '/../package.json');
const load = async (name) => (await import(pathToFileURL(from.resolve(name)).href)).default;
const OpenAI = await load('openai');
const Anthropic = await load('@anthropic-ai/sdk');

// capture is a fetch that keeps the headers of the last answer.
const capture = (job) => async (url, init) => {
  const answer = await fetch(url, init);
  job.cache = answer.headers.get('x-icyloom-cache');
  job.event = answer.headers.get('x-icyloom-event');
  return answer;
};

const openai = (job) =>
  new OpenAI({ baseURL: job.base + '/v1', apiKey: job.key, maxRetries: 0, fetch: capture(job) });
const anthropic = (job) =>
  new Anthropic({ baseURL: job.base, apiKey: job.key, maxRetries: 0, fetch: capture(job) });

const speak = {
  async chat(job) {
    if (!job.stream) return openai(job).chat.completions.create(job.request);
    const stream = openai(job).chat.completions.stream(job.request);
    let reasoning = '';
    // The SDK keeps the last piece of a field it does not know; clients join them.
    stream.on('chunk', (c) => {
      reasoning += c.choices[0]?.delta?.reasoning_content ?? '';
    });
    const whole = await stream.finalChatCompletion();
    if (reasoning) whole.choices[0].message.reasoning_content = reasoning;
    return whole;
  },
  async responses(job) {
    if (!job.stream) return openai(job).responses.create(job.request);
    return openai(job).responses.stream(job.request).finalResponse();
  },
  async messages(job) {
    if (!job.stream) return anthropic(job).messages.create(job.request);
    return anthropic(job).messages.stream(job.request).finalMessage();
  },
};

let input = '';
for await (const chunk of process.stdin) input += chunk;
const out = [];
for (const job of JSON.parse(input)) {
  try {
    const object = await speak[job.api](job);
    out.push({ cache: job.cache, event: job.event, object });
  } catch (error) {
    out.push({ cache: job.cache, event: job.event, error: `${error.name}: ${error.message}` });
  }
}
process.stdout.write(JSON.stringify(out));
