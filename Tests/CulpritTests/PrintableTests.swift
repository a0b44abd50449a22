import CulpritStallRecord
import Testing

@testable import Culprit

@Suite struct PrintableTests {
  @Test func bothImplementationsAgree() {
    for value in UInt32(0)...0x10FFFF {
      guard let scalar = Unicode.Scalar(value), PlainText.isHarmless(value) != isPrintable(scalar) else { continue }
      // A difference can come from another Unicode version of the standard library.
      Issue.record("U+\(String(value, radix: 16)): \(scalar.properties.generalCategory)")
    }
  }

  private func plain(_ bytes: [UInt8], capacity: Int = 200) -> String {
    var text = PlainText(capacity: capacity)
    text.append("STATUS=")
    let start = text.count
    for byte in bytes { text.append(CChar(bitPattern: byte)) }
    text.makePrintable(from: start)
    // SAFETY: the text has `count` bytes.
    return String(decoding: UnsafeRawBufferPointer(start: text.start, count: text.count), as: UTF8.self)
  }

  @Test(arguments: [
    ("http", "http"), ("größe 日本 🙂", "größe 日本 🙂"), ("a\nb\u{1B}[2Jc\u{7F}", "a?b?[2Jc?"), ("a\u{9B}b", "a??b"),
    ("a\u{202E}b\u{2028}c", "a???b???c"), ("tag\u{E0041}", "tag????"),
  ])
  func replacesHarmfulCharacters(name: String, shown: String) {
    #expect(plain(Array(name.utf8)) == "STATUS=" + shown)
  }

  /// Truncated and overlong characters, surrogates, values beyond Unicode and stray bytes become question marks.
  @Test(arguments: [
    ([0xC3], "?"), ([0xE2, 0x80], "??"), ([0xF0, 0x9F, 0x99], "???"), ([0xC1, 0x81], "??"),
    ([0xE0, 0x80, 0xAF], "???"),
    ([0xED, 0xA0, 0x80], "???"), ([0xF4, 0x90, 0x80, 0x80], "????"), ([0x80, 0x41], "?A"), ([0xC3, 0x41], "?A"),
    ([0xFF, 0xFE], "??"),
  ])
  func replacesInvalidUTF8(bytes: [UInt8], shown: String) { #expect(plain(bytes) == "STATUS=" + shown) }

  @Test func truncatesAtCapacity() {
    #expect(plain(Array("größe".utf8), capacity: 10) == "STATUS=gr?")
  }

  @Test func truncatesLongTexts() {
    #expect(printable("abc", limit: 3) == "abc")
    #expect(printable("abcd", limit: 3) == "abc…")
    #expect(printable("a\nb\u{1B}", limit: 3) == "a\\u{a}b…")
    #expect(printable("日本語", limit: 3) == "日本語")
    #expect(printable(String(repeating: "x", count: 10_000_000), limit: 200).count == 201)
    #expect(printable("\r\n", limit: 1) == "\\u{d}\\u{a}")
  }
}
