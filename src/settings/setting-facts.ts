import { z } from "zod";

/** The words about a setting, for messages and docs. */
export interface SettingFacts {
  /** The default as text. Undefined if absence has a meaning of its own. */
  readonly byDefault?: string;
  /** What absence means, if there is no default. */
  readonly whenAbsent?: string;
  /** What the setting does, in a sentence or two. */
  readonly does: string;
  /** A valid text. Undefined for a secret. */
  readonly example?: string;
  /** The setting may also come from the file that `<name>_FILE` names. Never in a message. */
  readonly secret?: true;
}

/** The facts of each setting in `environment`, by its schema. */
export const settingFacts = z.registry<SettingFacts>();

/** A setting with a default, which is parsed as if the operator had written it. */
export function setting<Value>(
  schema: z.ZodType<Value, string>,
  facts: SettingFacts & { byDefault: string },
) {
  return schema.prefault(facts.byDefault).register(settingFacts, facts);
}

/** A setting without a default, whose absence has a meaning. */
export function optionalSetting<Value>(
  schema: z.ZodType<Value, string>,
  facts: SettingFacts & { whenAbsent: string },
) {
  return schema.optional().register(settingFacts, facts);
}
