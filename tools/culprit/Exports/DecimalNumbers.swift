/// Returns `nanoseconds` / 10^`decimals` as an exact decimal number without trailing zeros. A `Double` would round.
func decimal(_ nanoseconds: UInt64, _ decimals: Int) -> String {
  let digits = String(nanoseconds)
  let padded = String(repeating: "0", count: max(0, decimals + 1 - digits.count)) + digits
  let fraction = padded.suffix(decimals)
  guard let last = fraction.lastIndex(where: { $0 != "0" }) else { return String(padded.dropLast(decimals)) }
  return padded.dropLast(decimals) + "." + fraction[...last]
}

func decimal(share: Double) -> String { decimal(UInt64((min(1, max(0, share)) * 1000).rounded()), 3) }
