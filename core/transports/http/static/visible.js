// The same as `core/text/exposure.py`: what can't be seen, acts or is drawn as another character is written as a mark, so
// that texts that differ look different. `tests/integration/test_web_page_text.py` compares the two.

const UNSEEN =
  "0-8 b-1f 7f-9f ad 34f 61c 115f 1160 17b4 17b5 180b-180f 200b-200f 2028-202e 2060-206f 3164 feff ffa0 fff0-fffb " +
  "d800-dfff 1bca0-1bca3 1d173-1d17a e0000-e0fff 2800 1d159 16fe4 1100-11ff a960-a97f d7b0-d7ff fe00-fe0f";
const OWN_SIGNS =
  "2400-2426 21e5 2298";
const SIGN_TWINS =
  "2010 2011 2043 2212 2044 2215 29f8 2236 a789 a78a 2024 2223 2217 204e 223c 2216 29f5";
const EMOJI_BASES =
  "a9 ae 203c 2049 2122 2139 2194-2199 21a9 21aa 2328 23cf 23ed-23ef 23f1 23f2 23f8-23fa 24c2 25aa 25ab 25b6 25c0 " +
  "25fb 25fc 2600-2604 260e 2611 2618 261d 2620 2622 2623 2626 262a 262e 262f 2638-263a 2640 2642 265f 2660 2663 " +
  "2665 2666 2668 267b 267e 2692 2694-2697 2699 269b 269c 26a0 26a7 26b0 26b1 26c8 26cf 26d1 26d3 26e9 26f0 26f1 " +
  "26f4 26f7-26f9 2702 2708 2709 270c 270d 270f 2712 2714 2716 271d 2721 2733 2734 2744 2747 2763 2764 27a1 2934 " +
  "2935 2b05-2b07 3030 303d 3297 3299 1f170 1f171 1f17e 1f17f 1f202 1f237 1f321 1f324-1f32c 1f336 1f37d 1f396 " +
  "1f397 1f399-1f39b 1f39e 1f39f 1f3cb-1f3ce 1f3d4-1f3df 1f3f3 1f3f5 1f3f7 1f43f 1f441 1f4fd 1f549 1f54a 1f56f " +
  "1f570 1f573-1f579 1f587 1f58a-1f58d 1f590 1f5a5 1f5a8 1f5b1 1f5b2 1f5bc 1f5c2-1f5c4 1f5d1-1f5d3 1f5dc-1f5de " +
  "1f5e1 1f5e3 1f5e8 1f5ef 1f5f3 1f5fa 1f6cb 1f6cd-1f6cf 1f6e0-1f6e5 1f6e9 1f6f0 1f6f3";
const MAX_MARKS = 4; // accents and vowels on one letter

function build(ranges) {
  const parts = ranges.split(" ").map((range) => range.split("-").map((code) => `\\u{${code}}`).join("-"));
  return new RegExp(`^[${parts.join("")}]$`, "u");
}

const unseen = build(UNSEEN);
const own = build(OWN_SIGNS);
const twins = build(SIGN_TWINS);
const emoji = build(EMOJI_BASES);
const KEYCAP = /^[0-9#*]\ufe0f\u20e3/;

export function isUnseen(sign) {
  return unseen.test(sign) || (sign !== " " && /^[\p{C}\p{Z}]$/u.test(sign));
}

// True for a sign that is seen on the letter or emoji before it, and makes no other character of that.
function isDrawnOn(sign, cluster) {
  const code = sign.codePointAt(0);
  const letters = [...cluster];
  if (sign === "\ufe0f") return letters.length === 1 && emoji.test(cluster);
  if (code >= 0x1f3fb && code <= 0x1f3ff) return letters.length === 1 && cluster > "\u2600" && /^\p{So}$/u.test(cluster);
  if (!/^\p{M}$/u.test(sign) || isUnseen(sign) || !/^[\p{L}\p{M}]$/u.test(letters[0])) return false;
  const marked = cluster + sign;
  return letters.length <= MAX_MARKS && !letters.includes(sign) && marked.normalize("NFC") === marked;
}

function isSeen(sign) {
  const code = sign.codePointAt(0);
  if (code >= 0x1f3fb && code <= 0x1f3ff) return false;
  return !own.test(sign) && !twins.test(sign) && !isUnseen(sign) && !/^\p{M}$/u.test(sign) && sign.normalize("NFC") === sign;
}

function mark(sign) {
  const code = sign.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  const seen = isUnseen(sign) || /^\p{M}$/u.test(sign) ? "" : `${sign} `;
  return `‹${seen}U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

function exposeLine(line) {
  const hasOwnMark = line.includes("‹") && /U\+|·|byte /.test(line);
  let shown = "";
  let cluster = "";
  let keycapEnd = 0;
  let at = 0;
  for (const sign of line) {
    const keycap = KEYCAP.exec(line.slice(at, at + 3));
    if (keycap) keycapEnd = at + keycap[0].length;
    if (at < keycapEnd || sign === "\t") {
      shown += sign;
      cluster = "";
    } else if (cluster && isDrawnOn(sign, cluster)) {
      shown += sign;
      cluster += sign;
    } else if (sign === "‹" ? !hasOwnMark : isSeen(sign)) {
      shown += sign;
      cluster = sign;
    } else {
      shown += mark(sign);
      cluster = "";
    }
    at += sign.length;
  }
  return shown;
}

// What is not seen must not hide in what is shown.
export function visible(text) {
  const whole = String(text);
  return /^[ -~]*$/.test(whole) ? whole : whole.split("\n").map(exposeLine).join("\n");
}
