import CulpritBlame
import CulpritStallRecord

/// What tells one problem from another across stalls, builds and hosts: twelve hexadecimal digits.
///
/// It is made of what a new build does not change: the service, the kind of source, the verdict, and the function that is to
/// blame, by its module and its name. Addresses, lines, the numbers of closures and the versions of libraries are no part of it. Nor
/// is the cause: the same function may compute on one day and lack a processor on the next. docs/many-stalls.md says how it is
/// computed, for other programs.
package enum Signature {
  /// Goes first: a later way to compute it has another number, and no signature in common with this one.
  private static let version = "1"

  /// How many digits one has.
  package static let digitCount = 12

  /// The signature of a stall of `source`.
  ///
  /// - Parameters:
  ///   - source: What stalled.
  ///   - service: The name of its process.
  ///   - verdict: Whether a function is to blame.
  ///   - function: The function that is to blame; where none is, the one at the end of the heaviest path.
  /// - Returns: Twelve hexadecimal digits.
  static func of(
    _ source: StallReport.Source,
    service: String,
    verdict: StallReport.Verdict,
    function: ResolvedFrame?
  ) -> String {
    let parts = [
      version, service, source.kind.rawValue, verdict.rawValue, function.map(module) ?? "", function.map(name) ?? "",
    ]
    return hash(parts)
  }

  /// Where the function is defined: its Swift module, else its file, without the version of a library.
  private static func module(_ frame: ResolvedFrame) -> String {
    if let module = frame.swiftModule { return module }
    let file = frame.moduleName.split(separator: " ").first ?? ""
    guard let end = file.firstRange(of: ".so") else { return String(file) }
    return String(file[..<end.lowerBound])
  }

  /// What it is called; empty where it has no name: its address is another one in the next build.
  private static func name(_ frame: ResolvedFrame) -> String { frame.function.map(withoutNumbers) ?? "" }

  /// `name` without what compilers count: "closure #2 in load()" as "closure in load()", `{lambda(int)#1}` as `{lambda(int)}`,
  /// `main::$_0` as `main::$_`.
  static func withoutNumbers(_ name: String) -> String {
    guard name.utf8.contains(where: { $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "$") }) else { return name }
    var kept = ""
    var rest = Substring(name)
    while let character = rest.popFirst() {
      let isNumbered = rest.first.map(isDigit) ?? false
      if character == "#", isNumbered {
        if kept.last == " " { kept.removeLast() }
        rest = rest.drop(while: isDigit)
      } else {
        kept.append(character)
        if character == "_", kept.hasSuffix("$_") { rest = rest.drop(while: isDigit) }
      }
    }
    return kept
  }

  private static func isDigit(_ character: Character) -> Bool { character.isASCII && character.isNumber }

  /// The upper 48 bits of the FNV-1a hash (64 bits) of `parts` in UTF-8, each with a zero byte behind it: the same in every process,
  /// which Swift's own hashes are not.
  package static func hash(_ parts: [String]) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for part in parts {
      for byte in Array(part.utf8) + [0] as [UInt8] { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }
    let digits = String(hash >> 16, radix: 16)
    return String(repeating: "0", count: digitCount - digits.count) + digits
  }
}
