import type { Admission, Admit, Applicant } from "../admission/admission.ts";

/** The same admission, with the proven key and its team in the notes of the request. */
export function noteCallers(admit: Admit): Admit {
  return (applicant, allowance) => {
    const admission = admit(applicant, allowance);
    return admission instanceof Promise
      ? admission.then((later) => noted(applicant, later))
      : noted(applicant, admission);
  };
}

function noted({ notes }: Applicant, admission: Admission): Admission {
  const { principal } = admission;
  if (notes === undefined || principal === undefined) return admission;
  notes.keyId = principal.keyId;
  notes.teamId = principal.teamId;
  return admission;
}
