import CulpritStallRecord
import Glibc

/// The runtime's own demangler, exported by libswiftCore.
@_silgen_name("swift_demangle")
private func swiftDemangle(
  _ name: UnsafePointer<CChar>?,
  _ length: UInt,
  _ buffer: UnsafeMutablePointer<CChar>?,
  _ bufferSize: UnsafeMutablePointer<UInt>?,
  _ flags: UInt32
) -> UnsafeMutablePointer<CChar>?

/// The C++ library's demangler (Itanium C++ ABI, section 3.3.1).
@_silgen_name("__cxa_demangle")
private func cxaDemangle(
  _ name: UnsafePointer<CChar>,
  _ buffer: UnsafeMutablePointer<CChar>?,
  _ length: UnsafeMutablePointer<Int>?,
  _ status: UnsafeMutablePointer<Int32>
) -> UnsafeMutablePointer<CChar>?

struct DemangledName: Equatable {
  var short: String
  var full: String
  var swiftModule: String?
  /// The full name of the Swift function in source code, shared by all variants and parts.
  var sourceFunction: String?
  var kind = FunctionKind.function
  /// Whether several functions share the code.
  var isMerged = false
}

/// Demangles `rawName` from a symbol table. Copies and parts of a function get its short name.
func demangle(_ rawName: String) -> DemangledName {
  let unversioned = VersionSuffix.removed(from: rawName)
  if unversioned.hasSuffix(stubEnding) {
    var name = demangle(String(unversioned.dropLast(stubEnding.count)))
    name.short += stubEnding
    name.full += stubEnding
    return name
  }
  let function = CopySuffix.removed(from: unversioned)
  var name = demangleWhole(String(function))
  if function.utf8.count < unversioned.utf8.count { name.full = demangleWhole(unversioned).full }
  name.short = FunctionName.fitted(name.short)
  return name
}

/// The suffix of a PLT stub's name, after the name of its target.
private let stubEnding = "@plt"

/// Returns the demangled form of a Swift, C++ or Rust `rawName` with all details, or `rawName` itself.
package func demangledName(_ rawName: String) -> String {
  let name = VersionSuffix.removed(from: rawName)
  if name.hasSuffix(stubEnding) { return demangledName(String(name.dropLast(stubEnding.count))) + stubEnding }
  guard name.utf8.count <= lengthMax else { return name }
  return swiftName(name) ?? OlderRustName(name)?.path ?? cxxName(name) ?? RustName.full(name) ?? name
}

/// Maximum length of a demangled name. Longer names are unreadable.
private let lengthMax = 8192

private func demangleWhole(_ rawName: String) -> DemangledName {
  guard rawName.utf8.count <= lengthMax else { return DemangledName(short: rawName, full: rawName) }
  if let full = swiftName(rawName) {
    let name = SwiftName(demangled: full, owner: globalOwner(of: rawName))
    return DemangledName(
      short: name.short,
      full: full,
      swiftModule: name.module,
      sourceFunction: name.kind == .glue ? nil : name.function,
      kind: name.kind,
      isMerged: name.isMerged
    )
  }
  if let name = OlderRustName(rawName) { return DemangledName(short: name.path, full: name.path) }
  if let full = cxxName(rawName) {
    return DemangledName(short: CxxName(demangled: full).short, full: full)
  }
  // The C++ library cannot demangle all names from newer compilers.
  if rawName.hasPrefix("_Z"), let name = CxxName(mangled: rawName) {
    return DemangledName(short: name.short, full: rawName)
  }
  if let name = RustName(rawName) { return DemangledName(short: name.short, full: name.full) }
  // Swift's compiler derives the name of asynchronous top-level code from the C function's name.
  if rawName == asyncMain || isPart(rawName, of: asyncMain) {
    return DemangledName(short: "top-level code", full: rawName, sourceFunction: asyncMain)
  }
  if let glue = SwiftGlue(rawName) {
    return DemangledName(short: glue.short, full: rawName, swiftModule: "Swift", kind: .glue)
  }
  return DemangledName(short: rawName, full: rawName)
}

private func swiftName(_ rawName: String) -> String? {
  guard isMangledSwift(rawName), let full = takeString(swiftDemangle(rawName, UInt(rawName.utf8.count), nil, nil, 0)),
    full != rawName
  else { return nil }
  return full
}

private func cxxName(_ rawName: String) -> String? {
  var status: Int32 = 0
  guard rawName.hasPrefix("_Z"), let full = takeString(cxaDemangle(rawName, nil, nil, &status)), status == 0 else {
    return nil
  }
  return full
}

/// Whether Swift's demangler accepts `rawName`. The demangler ends the process for some names that no compiler
/// generates. Mangled names consist of letters, digits, underscores and dollar signs (Swift's docs/ABI/Mangling.rst);
/// LLVM's additions start with a dot.
private func isMangledSwift(_ rawName: String) -> Bool {
  guard rawName.hasPrefix("$s") || rawName.hasPrefix("$S") || rawName.hasPrefix("_T0") else { return false }
  return rawName.utf8.allSatisfy { $0.isLetter || $0.isDigit || "_$.".utf8.contains($0) }
}

private let asyncMain = "async_Main"

private func isPart(_ rawName: String, of whole: String) -> Bool {
  let part = rawName.dropFirst(whole.count)
  guard rawName.hasPrefix(whole), part.hasPrefix("TQ") || part.hasPrefix("TY"), part.hasSuffix("_") else {
    return false
  }
  let number = part.dropFirst(2).dropLast()
  return !number.isEmpty && number.allSatisfy(\.isNumber)
}

/// Returns the global or static variable that `rawName` initializes. The demangler prints only its last part.
private func globalOwner(of rawName: String) -> String? {
  var rest = rawName.hasSuffix("Tm") ? rawName.dropLast(2) : rawName[...]
  guard rest.hasSuffix("_WZ") else { return nil }
  // The variables of a pattern follow each other, as in "4left_5right_". The first one represents all.
  for _ in 0..<16 {
    guard let mark = rest.lastIndex(of: "_") else { return nil }
    rest = rest[..<mark]
    // The name lacks the variable's type. With Int (Si), it becomes a variable's name (vp).
    let variable = String(rest) + "Sivp"
    if let owner = takeString(swiftDemangle(variable, UInt(variable.utf8.count), nil, nil, 0)), owner != variable,
      owner.hasSuffix(" : Swift.Int")
    {
      return String(owner.dropLast(12))
    }
  }
  return nil
}

private func takeString(_ text: UnsafeMutablePointer<CChar>?) -> String? {
  guard let text else { return nil }
  // SAFETY: both demanglers return a NUL-terminated string from malloc, owned by the caller.
  defer { free(text) }
  return String(cString: text)
}
