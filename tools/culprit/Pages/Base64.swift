/// Base64 encoding (RFC 4648, section 4).
enum Base64 {
  private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// Size of a group in bytes. Pieces of whole groups can be encoded separately.
  static let groupBytes = 3

  static func encode(_ bytes: some RandomAccessCollection<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    var rest = bytes[...]
    while !rest.isEmpty {
      let group = rest.prefix(groupBytes)
      rest = rest.dropFirst(groupBytes)
      let count = group.count
      let word = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (groupBytes - count))
      for number in 0..<4 {
        text.append(number <= count ? digits[Int(word >> UInt32(18 - 6 * number) & 63)] : UInt8(ascii: "="))
      }
    }
    return text
  }
}
