/** The settings of TLS, for a sentence. */
export const tlsFileNames =
  "KEYRUN_GRPC_TLS_CERT_FILE, KEYRUN_GRPC_TLS_KEY_FILE and KEYRUN_GRPC_TLS_CLIENT_CA_FILE";

/**
 * What to do about an error of Node's TLS, by its code: names the setting that is at fault.
 * Undefined if the code is none of TLS.
 */
export function tlsTrouble(code: string): string | undefined {
  return troubles.find(({ codes }) => codes.test(code))?.words;
}

const troubles: readonly { readonly codes: RegExp; readonly words: string }[] = [
  {
    codes: /WRONG_VERSION_NUMBER|PACKET_LENGTH|^EPROTO$/,
    words: `what listens there uses no TLS: remove ${tlsFileNames}, or set them for the server, too.`,
  },
  {
    codes: /ALTNAME/,
    words:
      "the server's certificate is not for this address: make the one in its KEYRUN_GRPC_TLS_CERT_FILE for this name, too.",
  },
  {
    codes: /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/,
    words:
      "the server's certificate is not valid now: renew the one in its KEYRUN_GRPC_TLS_CERT_FILE, and restart it.",
  },
  {
    codes: /PURPOSE/,
    words:
      "the certificate in KEYRUN_GRPC_TLS_CERT_FILE must be for servers and for clients: make it with both, or without extendedKeyUsage.",
  },
  {
    // An alert comes from the other side, about what this side has shown.
    codes: /ALERT/,
    words:
      "the server refused the certificate in this command's KEYRUN_GRPC_TLS_CERT_FILE: name the server's own, and its KEYRUN_GRPC_TLS_KEY_FILE.",
  },
  {
    codes: /CERT|ISSUER|LEAF_SIGNATURE/,
    words:
      "the authority in this command's KEYRUN_GRPC_TLS_CLIENT_CA_FILE has not signed the server's certificate: name the server's own.",
  },
  { codes: /SSL|TLS/, words: `${tlsFileNames} must be those of the server.` },
];
