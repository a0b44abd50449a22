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

/// A symbol's name in source terms.
struct DemangledName: Equatable {
  /// For readers: without types, modules and compiler's additions.
  var short: String
  /// Everything the demangler knows.
  var full: String
  /// The module that defines the function, for Swift.
  var swiftModule: String?
}

/// What `rawName`, as it stands in a symbol table, means: a Swift, a C++ or a plain name.
func demangle(_ rawName: String) -> DemangledName {
  // No compiler makes a name of such a length for a function that somebody would recognise.
  guard rawName.utf8.count <= 8192 else { return DemangledName(short: rawName, full: rawName, swiftModule: nil) }
  if rawName.hasPrefix("$s") || rawName.hasPrefix("$S") || rawName.hasPrefix("_T0"),
    let full = takeString(swiftDemangle(rawName, UInt(rawName.utf8.count), nil, nil, 0)), full != rawName
  {
    let name = SwiftName(demangled: full)
    return DemangledName(short: name.short, full: full, swiftModule: name.module)
  }
  if rawName.hasPrefix("_Z") {
    var status: Int32 = 0
    if let full = takeString(cxaDemangle(rawName, nil, nil, &status)), status == 0 {
      return DemangledName(short: shortCxxName(full), full: full, swiftModule: nil)
    }
  }
  return DemangledName(short: rawName, full: rawName, swiftModule: nil)
}

/// Copies a C string that belongs to the caller and frees it.
private func takeString(_ text: UnsafeMutablePointer<CChar>?) -> String? {
  guard let text else { return nil }
  // SAFETY: both demanglers return a NUL-terminated string from malloc, owned by the caller.
  defer { free(text) }
  return String(cString: text)
}
