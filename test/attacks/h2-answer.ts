import { framesIn, frameTypes } from "../harness/h2-frames.ts";

/** What a server has said on a connection about itself and about stream 1. */
export interface H2Answer {
  /** The code of GOAWAY; undefined if there is none. */
  readonly goAway: number | undefined;
  /** The code of RST_STREAM; undefined if there is none. */
  readonly reset: number | undefined;
  /** The first byte of the answer's head tells its status. */
  readonly status: number | undefined;
  readonly body: string;
}

export function h2AnswerIn(heard: string): H2Answer {
  const frames = framesIn(heard);
  const first = (type: number, stream: number) =>
    frames.find((each) => each.type === type && each.stream === stream);
  const head = first(frameTypes.headers, 1);
  const chunks = frames.filter(({ type, stream }) => type === frameTypes.data && stream === 1);
  return {
    goAway: first(frameTypes.goAway, 0)?.payload.readUInt32BE(4),
    reset: first(frameTypes.resetStream, 1)?.payload.readUInt32BE(0),
    status: head && statusIn(head.payload),
    body: Buffer.concat(chunks.map(({ payload }) => payload)).toString(),
  };
}

/** The indexes of HPACK's static table (RFC 7541, appendix A). */
const statusOfIndex = new Map([
  [0x88, 200],
  [0x89, 204],
  [0x8a, 206],
  [0x8b, 304],
  [0x8c, 400],
  [0x8d, 404],
  [0x8e, 500],
]);

/** The status in the first head of a connection, where it is the first field. */
function statusIn(block: Buffer): number {
  const [first = 0] = block;
  const known = statusOfIndex.get(first);
  if (known !== undefined) return known;
  // A literal, whose name has the index 8. Its value is a string with Huffman's code or without.
  const length = (block[1] ?? 0) & 0x7f;
  const value = block.subarray(2, 2 + length);
  return Number((block[1] ?? 0) & 0x80 ? digitsIn(value) : value.toString("latin1"));
}

/** Huffman's code has 5 bits for 0 to 2, and 6 bits for 3 to 9 (RFC 7541, appendix B). */
function digitsIn(bytes: Buffer): string {
  let bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  let digits = "";
  while (bits.length >= 5 && !/^1*$/.test(bits)) {
    const short = Number.parseInt(bits.slice(0, 5), 2);
    const isShort = short < 3;
    digits += isShort ? short : Number.parseInt(bits.slice(0, 6), 2) - 0x19 + 3;
    bits = bits.slice(isShort ? 5 : 6);
  }
  return digits;
}
