/**
 * Bytes that must be refused over HTTP/1.1. `KEY` stands for a key that works, so that an attack
 * that is taken for a request would run the app.
 */
export interface Http1Attack {
  readonly name: string;
  readonly bytes: string;
  /** The status and the code of the only answer. By default 400, `malformed_request`. */
  readonly refusal?: readonly [status: number, code: string];
  /**
   * The connection stays open, because the request's end is certain. By default it closes, and a
   * run that follows in the same packet is neither answered nor started.
   */
  readonly staysOpen?: true;
  /**
   * The body is shorter than its head says. Where the caller sends no more, that is malformed, and
   * may be seen first.
   */
  readonly isCutOff?: true;
}

const host = "Host: a\r\n";
const good = `${host}Authorization: Bearer KEY\r\nContent-Type: application/json\r\n`;
const json = '{"text":"x"}';
const line = "POST /api/apps/echo/run HTTP/1.1\r\n";

/** A good run, except for these lines in its head. Its body is in 12 bytes. */
const withLines = (lines: string) => `${line}${good}Content-Length: 12\r\n${lines}\r\n${json}`;
/** A good run, except for its framing and its body. */
const withBody = (framing: string, body: string) => `${line}${good}${framing}\r\n${body}`;
const chunked = (body: string) => withBody("Transfer-Encoding: chunked\r\n", body);
const chunkedJson = `c\r\n${json}\r\n0\r\n\r\n`;
/** A good run, except for its request line. */
const withFirstLine = (first: string) => `${first}${good}Content-Length: 12\r\n\r\n${json}`;
/** A good run, except for its host. */
const withHost = (hosts: string) =>
  `${line}${hosts}${good.slice(host.length)}Content-Length: 12\r\n\r\n${json}`;

const tooLarge = [431, "headers_too_large"] as const;
const run = "/api/apps/echo/run";

const requestLines: Record<string, string> = {
  "no method": withFirstLine(` ${run} HTTP/1.1\r\n`),
  "a method in small letters": withFirstLine(`post ${run} HTTP/1.1\r\n`),
  "a method that nobody knows": withFirstLine(`BREW ${run} HTTP/1.1\r\n`),
  "a method and more letters": withFirstLine(`POSTED ${run} HTTP/1.1\r\n`),
  "a method with NUL": withFirstLine(`PO\0ST ${run} HTTP/1.1\r\n`),
  "a method of 20,000 letters": withFirstLine(`${"A".repeat(20_000)} ${run} HTTP/1.1\r\n`),
  "a space before the method": withFirstLine(` POST ${run} HTTP/1.1\r\n`),
  "a tab behind the method": withFirstLine(`POST\t${run} HTTP/1.1\r\n`),
  "two spaces before the target's place": withFirstLine("POST  HTTP/1.1\r\n"),
  "no target": withFirstLine("POST HTTP/1.1\r\n"),
  "a target without a slash": withFirstLine("POST api/apps/echo/run HTTP/1.1\r\n"),
  "a target with a space": withFirstLine(`POST ${run} x HTTP/1.1\r\n`),
  "a target with NUL": withFirstLine(`POST ${run}\0 HTTP/1.1\r\n`),
  "a target with a bare CR": withFirstLine(`POST ${run}\r HTTP/1.1\r\n`),
  "a target with a control character": withFirstLine(`POST ${run}\x01 HTTP/1.1\r\n`),
  "a target with DEL": withFirstLine(`POST ${run}\x7f HTTP/1.1\r\n`),
  "a target of bytes above ASCII": withFirstLine(`POST ${run}\xff\xfe HTTP/1.1\r\n`),
  "no version": withFirstLine(`POST ${run}\r\n`),
  "HTTP/0.9": "GET /healthz\r\n\r\n",
  "version 0.9": withFirstLine(`POST ${run} HTTP/0.9\r\n`),
  "version 1.2": withFirstLine(`POST ${run} HTTP/1.2\r\n`),
  "version 2.0": withFirstLine(`POST ${run} HTTP/2.0\r\n`),
  "version 3.0": withFirstLine(`POST ${run} HTTP/3.0\r\n`),
  "version 11.1": withFirstLine(`POST ${run} HTTP/11.1\r\n`),
  "version 1.10": withFirstLine(`POST ${run} HTTP/1.10\r\n`),
  "version 1": withFirstLine(`POST ${run} HTTP/1\r\n`),
  "version -1.1": withFirstLine(`POST ${run} HTTP/-1.1\r\n`),
  "a version in small letters": withFirstLine(`POST ${run} http/1.1\r\n`),
  "letters behind the version": withFirstLine(`POST ${run} HTTP/1.1x\r\n`),
  "a space behind the version": withFirstLine(`POST ${run} HTTP/1.1 \r\n`),
  "a space within the version": withFirstLine(`POST ${run} HTTP /1.1\r\n`),
  "another protocol's name": withFirstLine(`POST ${run} ICE/1.0\r\n`),
  "a request line that ends with LF": withFirstLine(`POST ${run} HTTP/1.1\n`),
  "a request line that ends with CR": withFirstLine(`POST ${run} HTTP/1.1\r`),
  "a request line that ends with LF CR": withFirstLine(`POST ${run} HTTP/1.1\n\r`),
  "HTTP/2's preface, cut and continued otherwise": `PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n${withLines("")}`,
  "PRI in HTTP/1.1": withFirstLine("PRI * HTTP/1.1\r\n"),
  "a greeting of TLS": `\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03${"\x5a".repeat(507)}`,
  "a greeting of SSH": "SSH-2.0-OpenSSH_9.6\r\n\r\n",
  "a greeting of SMTP": "EHLO a.example\r\n\r\n",
  "a greeting of SOCKS": "\x05\x01\0\r\n\r\n",
  "a command of Redis": "*1\r\n$4\r\nPING\r\n",
  "an answer in place of a request": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  "bytes without an order": Buffer.from(Array.from({ length: 512 }, (_, at) => (at * 89) % 256)).toString(
    "latin1",
  ),
};

const hosts: Record<string, string> = {
  "no Host": withHost(""),
  "an empty Host": withHost("Host:\r\n"),
  "two Hosts": withHost("Host: a\r\nHost: b\r\n"),
  "two equal Hosts": withHost("Host: a\r\nHost: a\r\n"),
  "two Hosts in one line": withHost("Host: a, b\r\n"),
  "a Host with a path": withHost("Host: evil/x\r\n"),
  "a Host with a query": withHost("Host: evil?x\r\n"),
  "a Host with a fragment": withHost("Host: evil#x\r\n"),
  "a Host with a user": withHost("Host: u:p@evil\r\n"),
  "a Host with a backslash": withHost("Host: evil\\x\r\n"),
  "a Host with a tab": withHost("Host: a\tb\r\n"),
  "a Host with a space": withHost("Host: a b\r\n"),
  "a Host with NUL": withHost("Host: a\0b\r\n"),
  "a Host with an angle bracket": withHost("Host: <a>\r\n"),
  "a Host with half a bracket": withHost("Host: [::1\r\n"),
  "a Host with a bad escape": withHost("Host: %zz\r\n"),
  "a Host with a port above 65535": withHost("Host: a:99999\r\n"),
  "a Host with a port of letters": withHost("Host: a:b\r\n"),
  "a Host with two ports": withHost("Host: a:1:2\r\n"),
  "a Host with a number above 255": withHost("Host: 1.2.3.256\r\n"),
};

const headers: Record<string, string> = {
  "a space before the colon": withLines("X-A : b\r\n"),
  "a tab before the colon": withLines("X-A\t: b\r\n"),
  "a space before the first header": withFirstLine(`POST ${run} HTTP/1.1\r\n X-A: b\r\n`),
  "a header that goes on after a space": withLines("X-A: b\r\n c\r\n"),
  "a header that goes on after a tab": withLines("X-A: b\r\n\tc\r\n"),
  "a header without a colon": withLines("X-A\r\n"),
  "a header without a name": withLines(": b\r\n"),
  "a name with a space": withLines("X A: b\r\n"),
  "a name with a bracket": withLines("X(A): b\r\n"),
  "a name with an at sign": withLines("X@A: b\r\n"),
  "a name with quotes": withLines('"X-A": b\r\n'),
  "a name with a slash": withLines("X/A: b\r\n"),
  "a name with NUL": withLines("X\0A: b\r\n"),
  "a name with a byte above ASCII": withLines("X\xe9: b\r\n"),
  "a name with CR": withLines("X\rA: b\r\n"),
  "a value with NUL": withLines("X-A: b\0c\r\n"),
  "a value with a bare CR": withLines("X-A: b\rc\r\n"),
  "a value with a bare CR before another header": withLines("X-A: b\rTransfer-Encoding: chunked\r\n"),
  "a value with a control character": withLines("X-A: b\x01c\r\n"),
  "a value with a vertical tab": withLines("X-A: b\x0bc\r\n"),
  "a value with DEL": withLines("X-A: b\x7fc\r\n"),
  "a header that ends with LF": withLines("X-A: b\n"),
  "a header that ends with CR CR LF": withLines("X-A: b\r\r\n"),
  "a header that ends with LF CR": withLines("X-A: b\n\r"),
  "a head that ends with LF LF": `${line.replaceAll("\r", "")}${good.replaceAll("\r", "")}Content-Length: 12\n\n${json}`,
};

const lengths: Record<string, string> = {
  "a negative length": withBody("Content-Length: -12\r\n", json),
  "a length with a plus": withBody("Content-Length: +12\r\n", json),
  "a length in hexadecimal": withBody("Content-Length: 0xc\r\n", json),
  "a length with an exponent": withBody("Content-Length: 1e1\r\n", json),
  "a length with a fraction": withBody("Content-Length: 12.0\r\n", json),
  "a length of letters": withBody("Content-Length: twelve\r\n", json),
  "an empty length": withBody("Content-Length:\r\n", json),
  "a length in two words": withBody("Content-Length: 1 2\r\n", json),
  "a length with a parameter": withBody("Content-Length: 12;x\r\n", json),
  "a length in quotes": withBody('Content-Length: "12"\r\n', json),
  "a length with NUL": withBody("Content-Length: 12\0\r\n", json),
  "a length above 64 bits": withBody("Content-Length: 18446744073709551628\r\n", json),
  "a length of 40 digits": withBody(`Content-Length: ${"9".repeat(40)}\r\n`, json),
  "two lengths": withBody("Content-Length: 12\r\nContent-Length: 0\r\n", json),
  "two lengths, the larger one last": withBody("Content-Length: 0\r\nContent-Length: 12\r\n", json),
  "two lengths in one line": withBody("Content-Length: 12, 0\r\n", json),
  "two equal lengths": withBody("Content-Length: 12\r\nContent-Length: 12\r\n", json),
  "two equal lengths in one line": withBody("Content-Length: 12, 12\r\n", json),
};

const codings: Record<string, string> = {
  "a length and chunks": withBody("Content-Length: 12\r\nTransfer-Encoding: chunked\r\n", chunkedJson),
  "chunks and a length": withBody("Transfer-Encoding: chunked\r\nContent-Length: 12\r\n", chunkedJson),
  "chunks and a length of zero": withBody("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", chunkedJson),
  "chunks in capitals, and a length": withBody(
    "TRANSFER-ENCODING: CHUNKED\r\nContent-Length: 4\r\n",
    chunkedJson,
  ),
  "a coding of no name": withBody("Transfer-Encoding:\r\n", chunkedJson),
  "the coding gzip": withBody("Transfer-Encoding: gzip\r\n", chunkedJson),
  "the coding identity": withBody("Transfer-Encoding: identity\r\n", chunkedJson),
  "the coding identity and a length": withBody("Transfer-Encoding: identity\r\nContent-Length: 12\r\n", json),
  "a coding behind chunked": withBody("Transfer-Encoding: chunked, gzip\r\n", chunkedJson),
  "a coding before chunked": withBody("Transfer-Encoding: gzip, chunked\r\n", chunkedJson),
  "chunked twice": withBody("Transfer-Encoding: chunked, chunked\r\n", chunkedJson),
  "chunked twice, in two lines": withBody(
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    chunkedJson,
  ),
  "chunked and identity, in two lines": withBody(
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    chunkedJson,
  ),
  "a letter before chunked": withBody("Transfer-Encoding: xchunked\r\n", chunkedJson),
  "a letter behind chunked": withBody("Transfer-Encoding: chunkedx\r\n", chunkedJson),
  "chunked with a vertical tab": withBody("Transfer-Encoding: \x0bchunked\r\n", chunkedJson),
  "chunked in quotes": withBody('Transfer-Encoding: "chunked"\r\n', chunkedJson),
  "chunked with a parameter": withBody("Transfer-Encoding: chunked;q=1\r\n", chunkedJson),
  "chunked and a comma": withBody("Transfer-Encoding: chunked,\r\n", chunkedJson),
  "a comma and chunked": withBody("Transfer-Encoding: ,chunked\r\n", chunkedJson),
  "chunked in a line of its own": withBody("Transfer-Encoding:\r\n chunked\r\n", chunkedJson),
  "a space before the coding's colon": withBody("Transfer-Encoding : chunked\r\n", chunkedJson),
  "chunks over HTTP/1.0": chunked(chunkedJson).replace("HTTP/1.1", "HTTP/1.0"),
};

const chunks: Record<string, string> = {
  "a negative size": chunked(`-c\r\n${json}\r\n0\r\n\r\n`),
  "a size with a plus": chunked(`+c\r\n${json}\r\n0\r\n\r\n`),
  "a size with 0x": chunked(`0xc\r\n${json}\r\n0\r\n\r\n`),
  "a size that is no number": chunked(`z\r\n${json}\r\n0\r\n\r\n`),
  "no size": chunked(`\r\n${json}\r\n0\r\n\r\n`),
  "a size above 64 bits": chunked(`1000000000000000c\r\n${json}\r\n0\r\n\r\n`),
  "a size of 100 digits": chunked(`${"f".repeat(100)}\r\n${json}\r\n0\r\n\r\n`),
  "a space before the size": chunked(` c\r\n${json}\r\n0\r\n\r\n`),
  "a space behind the size": chunked(`c \r\n${json}\r\n0\r\n\r\n`),
  "a size that ends with LF": chunked(`c\n${json}\r\n0\r\n\r\n`),
  "a size that ends with CR": chunked(`c\r${json}\r\n0\r\n\r\n`),
  "a chunk longer than its size": chunked(`b\r\n${json}\r\n0\r\n\r\n`),
  "a chunk shorter than its size": chunked(`d\r\n${json}\r\n0\r\n\r\n`),
  "a chunk that ends with LF": chunked(`c\r\n${json}\n0\r\n\r\n`),
  "a chunk that ends without CRLF": chunked(`c\r\n${json}0\r\n\r\n`),
  "an extension with NUL": chunked(`c;a=\0\r\n${json}\r\n0\r\n\r\n`),
  "an extension with LF": chunked(`c;a=b\n${json}\r\n0\r\n\r\n`),
  "an extension with a bare CR": chunked(`c;a=b\rc\r\n${json}\r\n0\r\n\r\n`),
  "an extension with an open quote": chunked(`c;a="b\r\n${json}\r\n0\r\n\r\n`),
  "an extension of 20,000 bytes": chunked(`c;a=${"b".repeat(20_000)}\r\n${json}\r\n0\r\n\r\n`),
  "a trailer without a name": chunked(`c\r\n${json}\r\n0\r\n: b\r\n\r\n`),
  "a trailer with a space in its name": chunked(`c\r\n${json}\r\n0\r\nX A: b\r\n\r\n`),
  "a trailer with NUL": chunked(`c\r\n${json}\r\n0\r\nX-A: b\0\r\n\r\n`),
  "a trailer that goes on": chunked(`c\r\n${json}\r\n0\r\nX-A: b\r\n c\r\n\r\n`),
  "a body that ends with LF": chunked(`c\r\n${json}\r\n0\n\n`),
};

const large: Record<string, string> = {
  "a target of 20,000 bytes": withFirstLine(`POST ${run}?${"a".repeat(20_000)} HTTP/1.1\r\n`),
  "a header of 20,000 bytes": withLines(`X-A: ${"b".repeat(20_000)}\r\n`),
  "a name of 20,000 bytes": withLines(`${"X".repeat(20_000)}: b\r\n`),
  "headers of 20,000 bytes in all": withLines(`X-A: ${"b".repeat(1_000)}\r\n`.repeat(20)),
  "65 headers": withLines("X-A: b\r\n".repeat(61)),
  "300 headers": withLines("X-A: b\r\n".repeat(300)),
  "2,100 headers": withLines("a:\r\n".repeat(2_100)),
  "trailers of 20,000 bytes": chunked(
    `c\r\n${json}\r\n0\r\n${`X-A: ${"b".repeat(1_000)}\r\n`.repeat(20)}\r\n`,
  ),
};

/** What is refused for its content: the connection can go on. */
const content: readonly Omit<Http1Attack, "staysOpen">[] = [
  { name: "the target *", bytes: withFirstLine("POST * HTTP/1.1\r\n"), refusal: [404, "not_found"] },
  { name: "OPTIONS *", bytes: `OPTIONS * HTTP/1.1\r\n${good}\r\n`, refusal: [404, "not_found"] },
  { name: "TRACE", bytes: `TRACE ${run} HTTP/1.1\r\n${good}\r\n`, refusal: [405, "method_not_allowed"] },
  {
    name: "PROPFIND",
    bytes: `PROPFIND ${run} HTTP/1.1\r\n${good}\r\n`,
    refusal: [405, "method_not_allowed"],
  },
  {
    name: "a method to use in place of POST",
    bytes: `GET ${run} HTTP/1.1\r\n${good}X-HTTP-Method-Override: POST\r\n\r\n`,
    refusal: [405, "method_not_allowed"],
  },
  {
    name: "a target that steps out",
    bytes: withFirstLine("POST /api/apps/../apps/echo/run HTTP/1.1\r\n"),
    refusal: [404, "not_found"],
  },
  {
    name: "a bad escape",
    bytes: withFirstLine("POST /api/apps/%zz/run HTTP/1.1\r\n"),
    refusal: [400, "invalid_argument"],
  },
  {
    name: "a target with a fragment",
    bytes: withFirstLine(`POST ${run}#x HTTP/1.1\r\n`),
    refusal: [404, "not_found"],
  },
  {
    name: "two credentials",
    bytes: withLines("Authorization: Bearer KEY\r\n"),
    refusal: [401, "malformed_authorization"],
  },
  {
    name: "a chunk of 2^64 - 1 bytes",
    bytes: chunked(`ffffffffffffffff\r\n${"x".repeat(1_100_000)}`),
    refusal: [413, "request_too_large"],
  },
  {
    name: "a length of 2^53 bytes",
    bytes: withBody("Content-Length: 9007199254740992\r\n", json),
    refusal: [413, "request_too_large"],
    isCutOff: true,
  },
  {
    name: "an escaped NUL",
    bytes: withFirstLine("POST /api/apps/echo%00/run HTTP/1.1\r\n"),
    refusal: [404, "app_not_found"],
  },
  {
    name: "a body in a coding",
    bytes: withLines("Content-Encoding: gzip\r\n"),
    refusal: [415, "unsupported_media_type"],
  },
];

const rows = (group: string, table: Record<string, string>, refusal?: Http1Attack["refusal"]) =>
  Object.entries(table).map(([name, bytes]) => ({
    name: `${group}: ${name}`,
    bytes,
    ...(refusal && { refusal }),
  }));

export const http1Attacks: readonly Http1Attack[] = [
  {
    name: "request line: CONNECT",
    bytes: withFirstLine("CONNECT a:80 HTTP/1.1\r\n"),
    refusal: [405, "method_not_allowed"],
  },
  ...rows("request line", requestLines),
  ...rows("host", hosts),
  ...rows("header", headers),
  ...rows("length", lengths),
  ...rows("coding", codings),
  ...rows("chunk", chunks),
  ...rows("size", large, tooLarge),
  ...content.map((one) => ({ ...one, staysOpen: true as const })),
];
