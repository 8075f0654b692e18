// The document of `/openapi.json`. `npm run generate` writes it into gen/, with `{{name}}` where a
// configuration says something of its own; a start only fills that in.
import template from "#gen/openapi.json" with { type: "json" };
import { leakBounds } from "../auth/policy.ts";
import type { Config, PlanName } from "../settings/config.ts";

/** What the document says of a configuration, by the names in the template. */
export interface OpenApiFacts
  extends Readonly<Record<PlanName | "version" | "keyPrefix" | "bodyBytesMax" | "reportBytesMax", string>> {
  /** A number, but for its name in the template. */
  readonly textCharactersMax: number | string;
}

export function openApiFacts(
  { planLimits, bodyBytesMax, keyPrefix }: Pick<Config, "planLimits" | "bodyBytesMax" | "keyPrefix">,
  version: string,
): OpenApiFacts {
  const { free, pro, team, enterprise } = planLimits;
  return {
    free: `${free}`,
    pro: `${pro}`,
    team: `${team}`,
    enterprise: `${enterprise}`,
    version,
    keyPrefix,
    bodyBytesMax: `${bodyBytesMax}`,
    reportBytesMax: `${Math.min(bodyBytesMax, leakBounds.reportBytesMax)}`,
    // An ASCII text of this length fits the body exactly, with no other field and no white space.
    textCharactersMax: bodyBytesMax - '{"text":""}'.length,
  };
}

/** The document in JSON. It names the second header for keys, if there is one. */
export function writeOpenApi(facts: OpenApiFacts, keyHeader?: string): string {
  const byName = new Map<string, string | number>(Object.entries(facts));
  const factOf = (name: string) => {
    const fact = byName.get(name);
    if (fact === undefined) throw new Error(`gen/openapi.json has an unknown name: ${name}`);
    return fact;
  };
  const written = JSON.stringify(template, (field, value) => {
    if (keyHeader !== undefined && field === "securitySchemes") {
      const description = "The same key alone. Where it is sent, `Authorization` is not looked at.";
      return { ...value, keyHeader: { type: "apiKey", in: "header", name: keyHeader, description } };
    }
    // The members of the list are alternatives. An empty list is an operation without a key.
    if (keyHeader !== undefined && field === "security" && value.length > 0) {
      return [...value, { keyHeader: [] }];
    }
    if (typeof value !== "string") return value;
    // A fact that is the whole value keeps its type.
    const [, whole] = /^\{\{(\w+)\}\}$/.exec(value) ?? [];
    if (whole !== undefined) return factOf(whole);
    return value.replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(factOf(name)));
  });
  return `${written}\n`;
}
