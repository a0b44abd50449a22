extension Kind {
  /// Functions that differ only in a global variable: the optimizer merges them.
  static let alike = [Kind("readTax", readTax), Kind("readDiscount", readDiscount), Kind("readPostage", readPostage)]
}

private let taxes = table(7)
private let discounts = table(11)
private let postages = table(13)

private func table(_ factor: Int) -> [UInt8] { (0..<1000).map { UInt8(truncatingIfNeeded: $0 &* factor) } }

@inline(never)
private func readTax(until end: UInt64) {
  var value = 0
  while isBefore(end) { for byte in taxes { value = value &* 31 &+ Int(byte) } }
  keep(value)
}

@inline(never)
private func readDiscount(until end: UInt64) {
  var value = 0
  while isBefore(end) { for byte in discounts { value = value &* 31 &+ Int(byte) } }
  keep(value)
}

@inline(never)
private func readPostage(until end: UInt64) {
  var value = 0
  while isBefore(end) { for byte in postages { value = value &* 31 &+ Int(byte) } }
  keep(value)
}
