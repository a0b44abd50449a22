/// Base64 (RFC 4648, 4).
enum Base64 {
  private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// `bytes` in characters of ASCII.
  static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    for place in stride(from: 0, to: bytes.count, by: 3) {
      let count = min(3, bytes.count - place)
      var word: UInt32 = 0
      for number in 0..<3 { word = word << 8 | (number < count ? UInt32(bytes[place + number]) : 0) }
      for number in 0..<4 {
        text.append(number <= count ? digits[Int(word >> UInt32(18 - 6 * number) & 63)] : UInt8(ascii: "="))
      }
    }
    return text
  }
}
