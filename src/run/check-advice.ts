/** What to do about an app that a check has found at fault: one row for each usual mistake. */

import type { AppRecord } from "../apps/app-store.ts";
import type { Reason } from "../refusal/reasons.ts";
import { listsFaults } from "./app-words.ts";
import type { SeenAnswer } from "./seen-answer.ts";

/** What a check knows of a run that the app did not do. */
export interface Finding {
  readonly app: AppRecord;
  readonly reason: Reason;
  /** What the log says of it. */
  readonly problem: string;
  readonly seen: SeenAnswer;
  /** What the app got in `X-Request-Id`. */
  readonly requestId: string;
}

/** How to mend it, in words for the operator; the general advice where no row fits. */
export function adviceFor(finding: Finding): string {
  const words = rows.find(({ fits }) => fits(finding))?.words ?? general;
  return typeof words === "string" ? words : words(finding);
}

interface Row {
  fits(finding: Finding): boolean;
  readonly words: string | ((finding: Finding) => string);
}

const isReason = (wanted: Reason) => (finding: Finding) => finding.reason === wanted;
const answered = (from: number, to: number) => (finding: Finding) => {
  const { httpStatus = 0 } = finding.seen;
  return finding.reason === "APP_FAILED" && httpStatus >= from && httpStatus <= to;
};
const failedBy = (form: RegExp) => (finding: Finding) =>
  finding.reason === "APP_FAILED" && form.test(finding.problem);
const unreached = (form: RegExp) => (finding: Finding) =>
  finding.reason === "APP_UNREACHABLE" && form.test(finding.problem);

const hasTemplate = ({ app: { backend } }: Finding) =>
  backend.kind === "http" && backend.template !== undefined;
const ownBody = '{"runId","teamId","appId","keyId","text"}, or with "input" beside or in place of "text"';
const general = ({ requestId }: Finding) =>
  `See the app's own log. The run of this check had the X-Request-Id ${requestId}.`;
const wholeAnswer =
  'Answer 200 with Content-Type: application/json and {"text":"…"}, {"output":…} or both: one object. For a service with a format of its own, say where the text or the JSON stands: apps update, --text-at, --output-at.';

/** The first row that fits counts. */
const rows: readonly Row[] = [
  {
    fits: unreached(/ECONNREFUSED/),
    words:
      "Nothing listens there. Start the app, and check host and port. If Keyrun runs in a container, 127.0.0.1 is that container: use the name of the app's container or host.",
  },
  {
    fits: unreached(/ENOTFOUND|EAI_AGAIN|ENODATA|ESERVFAIL|queryA/i),
    words: "The host's name is not known where Keyrun runs. Check its spelling, and the name server there.",
  },
  {
    fits: unreached(/no TLS/),
    words: "Name the app by http: in place of https:, or without TLS, or let its server speak TLS.",
  },
  {
    fits: unreached(/certificate|CERT|SSL|TLS|altname/i),
    words:
      "The certificate of the app's server does not hold. Renew it, use a name that it is for, or name its authority in NODE_EXTRA_CA_CERTS where Keyrun starts.",
  },
  {
    fits: isReason("APP_UNREACHABLE"),
    words: "Check host, port and protocol, and the firewalls between Keyrun and the app.",
  },
  {
    fits: isReason("APP_TIMEOUT"),
    words: "The app has its timeout to answer. Make it faster, or give it more: apps update, --timeout.",
  },
  {
    fits: isReason("APP_BUSY"),
    words: "The app, or Keyrun for it, can take no more runs now. Check again in a while.",
  },
  {
    fits: (finding) =>
      hasTemplate(finding) && (finding.reason === "APP_REFUSED" || answered(400, 400)(finding)),
    words: "Compare what was sent with what the service takes. To change it: apps update, --request.",
  },
  {
    fits: ({ reason, seen }) => reason === "APP_REFUSED" && listsFaults(seen.body),
    words: `The app wants other fields than Keyrun sends, which are ${ownBody}. Let its model have \`text\` or \`input\`, and ignore the others, or send it others: apps update, --request.`,
  },
  {
    fits: isReason("APP_REFUSED"),
    words: "These words go to callers. If they are about the text or the JSON, check with others.",
  },
  {
    fits: failedBy(/lone surrogate/),
    words:
      "A text has half of an emoji, or of another such character. Cut a text between its characters, not between its UTF-16 code units.",
  },
  {
    fits: failedBy(/sent an error in its stream/),
    words: ({ requestId }) =>
      `The app says so itself, by \`event: error\` or a field \`error\`. See its own log: the X-Request-Id was ${requestId}.`,
  },
  {
    fits: failedBy(/has more than \d+ (?:bytes|values)/),
    words: "Let the app answer less in one run.",
  },
  {
    fits: failedBy(/compressed its answer/),
    words: "Let the app, and any proxy before it, send the answer as it is.",
  },
  {
    fits: (finding) =>
      hasTemplate(finding) && failedBy(/^(?:A message|The answer|No message of the stream) /)(finding),
    words:
      "Compare what came with the pointers of the app's template, and change these: apps update, --request, --text-at, --output-at, --stream-text-at and --stream-event.",
  },
  {
    fits: (finding) => finding.seen.isStream && failedBy(/^(?:A message|The answer) is not /)(finding),
    words:
      'Send each piece as a message {"text":"…"}, and JSON last: {"output":…}. In server-sent events a message is `data: ` with an empty line after it, in the others a line. The end of the body is the end: send no [DONE].',
  },
  {
    fits: failedBy(/^The answer is not /),
    words: wholeAnswer,
  },
  {
    fits: answered(201, 299),
    words: wholeAnswer,
  },
  {
    fits: answered(300, 399),
    words: ({ app: { backend }, seen }) => {
      const from = backend.kind === "http" ? backend.url : undefined;
      const to = URL.canParse(seen.location, from) ? `: ${new URL(seen.location, from)}` : "";
      return `Name where it leads with --url${to}. Often a slash at the end, or https:, is what is missing.`;
    },
  },
  {
    fits: answered(400, 400),
    words: `The app can't read the request, and says no word to its caller. Keyrun POSTs JSON: ${ownBody}. To refuse a text, answer 422 with {"error":{"message":"…"}}.`,
  },
  {
    fits: answered(401, 403),
    words: "Give the app what it asks for with --header 'Authorization: …', or let it accept Keyrun.",
  },
  {
    fits: answered(404, 404),
    words: "Check the path in --url, to the last slash, and that the app has a route for POST there.",
  },
  {
    fits: answered(405, 405),
    words: ({ seen }) =>
      `Let the app take POST at this path${seen.allow === "" ? "" : `: now it allows ${seen.allow}`}. Keyrun sends nothing else.`,
  },
  {
    fits: answered(415, 415),
    words: "Keyrun POSTs application/json. Let the app read that.",
  },
  {
    fits: answered(422, 422),
    words: 'To refuse a text, answer 422 with {"error":{"message":"…"}}, {"message":"…"} or {"detail":"…"}.',
  },
  {
    fits: answered(503, 503),
    words:
      "If the app has done nothing, let it answer 429, or 503 with Retry-After: then callers may repeat.",
  },
  {
    fits: answered(500, 599),
    words: "The app failed inside, most often by an exception. Its own log says where.",
  },
  {
    fits: ({ app, problem }) => app.backend.kind === "grpc" && /12 UNIMPLEMENTED/.test(problem),
    words: "Let the app's server implement keyrun.v1.AppBackendService: Run, StreamRun, or both.",
  },
];
