// Speaks through the clients that people use. Each line on stdin is a job
//
//	{id, client, api, base, key, stream, request}
//
// and each line on stdout what the client made of the answer to one of them:
//
//	{id, cache, event, object} or {id, cache, event, error}
//
// `client` is "sdk", the provider's own SDK, which sends `request` as it is, or
// "vercel", Vercel's AI SDK, which makes its own request from {model, prompt}.
// Jobs run side by side; the script ends when stdin does.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

// The packages live in a node_modules folder of its own (argv[2]), not beside this file.
const from = createRequire(process.argv[2] + '/../package.json');
const load = (name) => import(pathToFileURL(from.resolve(name)).href);
const { default: OpenAI } = await load('openai');
const { ChatCompletionStream } = await load('openai/lib/ChatCompletionStream.mjs');
const { default: Anthropic } = await load('@anthropic-ai/sdk');
const { generateText, streamText } = await load('ai');
const { createOpenAI } = await load('@ai-sdk/openai');
const { createAnthropic } = await load('@ai-sdk/anthropic');

globalThis.AI_SDK_LOG_WARNINGS = false;
console.warn = () => {}; // of models that are going to end
// A refused stream also rejects promises that nobody asked for.
process.on('unhandledRejection', () => {});

// capture is a fetch that keeps the headers of the last answer.
const capture = (job) => async (url, init) => {
  const answer = await fetch(url, init);
  job.cache = answer.headers.get('x-icyloom-cache');
  job.event = answer.headers.get('x-icyloom-event');
  return answer;
};

const openai = (job) =>
  new OpenAI({ baseURL: job.base + '/v1', apiKey: job.key, maxRetries: 0, fetch: capture(job) });
// With a time limit of its own the SDK does not refuse long answers as JSON.
const anthropic = (job) =>
  new Anthropic({ baseURL: job.base, apiKey: job.key, maxRetries: 0, timeout: 60_000, fetch: capture(job) });

const sdk = {
  async chat(job) {
    if (!job.stream) return openai(job).chat.completions.create(job.request);
    // Its helper for streams would add to the request; here it only reads.
    const answer = await openai(job).chat.completions.create({ ...job.request, stream: true });
    const stream = ChatCompletionStream.fromReadableStream(answer.toReadableStream());
    // The SDK keeps the last piece of a field it does not know; clients join them.
    const thoughts = new Map();
    stream.on('chunk', (chunk) => {
      for (const { index, delta } of chunk.choices) {
        const said = thoughts.get(index) ?? {};
        for (const name of ['reasoning_content', 'reasoning']) {
          if (typeof delta?.[name] === 'string') said[name] = (said[name] ?? '') + delta[name];
        }
        thoughts.set(index, said);
      }
    });
    const whole = await stream.finalChatCompletion();
    for (const choice of whole.choices) Object.assign(choice.message, thoughts.get(choice.index));
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
  async count_tokens(job) {
    const options = { query: { beta: true } }; // as Claude Code does
    return anthropic(job).beta.messages.countTokens(job.request, options);
  },
};

// model is a Vercel model for the API of a job.
const model = (job) => {
  const options = { baseURL: job.base + '/v1', apiKey: job.key, fetch: capture(job) };
  if (job.api === 'messages') return createAnthropic(options)(job.request.model);
  if (job.api === 'chat') return createOpenAI(options).chat(job.request.model);
  return createOpenAI(options)(job.request.model);
};

const vercel = async (job) => {
  const ask = { model: model(job), prompt: job.request.prompt, maxRetries: 0 };
  let result;
  if (job.stream) {
    result = streamText({ ...ask, onError: () => {} });
    for await (const part of result.fullStream) if (part.type === 'error') throw part.error;
  } else {
    result = await generateText(ask);
  }
  const calls = await result.toolCalls;
  const { raw, ...usage } = await result.usage;
  return {
    text: await result.text,
    reasoning: await result.reasoningText,
    tools: calls.map(({ toolName, input }) => ({ toolName, input })),
    finish: await result.finishReason,
    usage,
  };
};

const run = async (job) => {
  try {
    const object = job.client === 'vercel' ? await vercel(job) : await sdk[job.api](job);
    if (typeof object !== 'object') throw new TypeError('the client took the answer for no object');
    return { id: job.id, cache: job.cache, event: job.event, object };
  } catch (error) {
    return { id: job.id, cache: job.cache, event: job.event, error: `${error?.name}: ${error?.message}` };
  }
};

createInterface({ input: process.stdin }).on('line', async (line) => {
  process.stdout.write(JSON.stringify(await run(JSON.parse(line))) + '\n');
});
