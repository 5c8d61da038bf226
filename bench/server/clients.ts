/** Clients in a process of their own, for measurements: each message orders requests, and the answer gives their times. */

/** Requests to make. */
export interface Work {
  readonly url: string;
  readonly body: object;
  /** The number of clients at the same time. */
  readonly clients: number;
  /** The number of requests of each client. */
  readonly requests: number;
}

/** The requests' times, in milliseconds. */
export interface Times {
  readonly all: number;
  /** From a request to the first byte of its body. */
  readonly first: readonly number[];
  /** From there to the last byte. */
  readonly rest: readonly number[];
  readonly bytes: number;
}

async function run({ url, body, clients, requests }: Work): Promise<Times> {
  const [first, rest]: [number[], number[]] = [[], []];
  let bytes = 0;
  const text = JSON.stringify(body);
  const start = performance.now();
  await Promise.all(Array.from({ length: clients }, async () => {
    for (let i = 0; i < requests; i++) {
      const begun = performance.now();
      const response = await fetch(url, { method: "POST", body: text, headers: { "content-type": "application/json" } });
      let at = 0;
      for await (const chunk of response.body!) {
        if (at === 0) first.push((at = performance.now()) - begun);
        bytes += chunk.length;
      }
      rest.push(performance.now() - at);
      if (response.status !== 200) throw new Error(`status ${response.status}`);
    }
  }));
  return { all: performance.now() - start, first, rest, bytes };
}

process.on("message", (work: Work) => void run(work).then((times) => process.send!(times), (error: unknown) => process.send!({ error: String(error) })));
