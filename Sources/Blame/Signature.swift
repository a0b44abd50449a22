import CulpritStallRecord

/// The signature of a problem: twelve hexadecimal digits that are equal across stalls, builds and hosts.
///
/// Computed from properties that a new build preserves: the service, the verdict, and the module and name of the
/// culprit function. Excludes the cause, because a function might compute on one day and lack a CPU on another. The
/// kind of source counts only without a named function, because one slow function can delay a loop, a job and a
/// section. Specified in docs/internals/many-stalls.md.
package enum Signature {
  /// The version of the computation, which is hashed first.
  private static let version = "1"

  package static let digitCount = 12

  static func of(
    _ source: StallReport.Source,
    service: String,
    verdict: StallReport.Verdict,
    function: ResolvedFrame?
  ) -> String {
    let name = function.map(name) ?? ""
    let kind = name.isEmpty ? source.kind.rawValue : ""
    return hash([version, service, kind, verdict.rawValue, function.map(module) ?? "", name])
  }

  private static func module(_ frame: ResolvedFrame) -> String {
    if let module = frame.swiftModule { return module }
    let file = frame.moduleName.split(separator: " ").first ?? ""
    guard let end = file.firstRange(of: ".so") else { return String(file) }
    return String(file[..<end.lowerBound])
  }

  /// Returns the function's name; empty for an unnamed function, because its address changes with the build.
  private static func name(_ frame: ResolvedFrame) -> String { frame.function.map(withoutNumbers) ?? "" }

  /// Removes compiler-assigned numbers: "closure #2 in load()" becomes "closure in load()", `{lambda(int)#1}` becomes
  /// `{lambda(int)}`, `main::$_0` becomes `main::$_`. Closures in top-level code differ only by their numbers.
  static func withoutNumbers(_ name: String) -> String {
    guard name.utf8.contains(where: { $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "$") }),
      !name.hasSuffix(" in top-level code")
    else { return name }
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

  /// Returns the upper 48 bits of the 64-bit FNV-1a hash of `parts` in UTF-8, each followed by a zero byte.
  package static func hash(_ parts: [String]) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for part in parts {
      for byte in Array(part.utf8) + [0] as [UInt8] { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }
    return digits(hash >> 16, digitCount, radix: 16)
  }
}
