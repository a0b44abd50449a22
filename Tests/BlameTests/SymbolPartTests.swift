import Testing

@testable import CulpritBlame

/// Parts of symbols are looked for byte by byte, and found where characters find them.
@Suite struct SymbolPartTests {
  @Test(arguments: ["", "a", "ab", "aab", "$sSS11_StringGutsV", "7_Native", "aaaaab", "ba"])
  func partsAreFound(_ part: String) {
    for text in ["", "a", "aab", "aaaab", "$sSS11_StringGutsV4growyySiF", "5_7_NativeSet", "7_Nativ", "aaaaaaab"] {
      #expect(text.hasPart(part) == text.contains(part), "\(part) in \(text)")
    }
  }
}
