import Foundation

/// The failure of a compiler.
package struct CompilationFailure: Error, CustomStringConvertible {
  package var description: String
}

/// Compiles `source` in `directory` to the shared library `name`.so.
///
/// - Parameters:
///   - source: The text of the source file.
///   - language: The suffix of the source file's name: `c`, `s`, `swift`.
///   - name: The library's name without `.so`.
///   - directory: The directory of the source file and the library.
///   - options: The compiler's options.
/// - Returns: The library's path.
/// - Throws: ``CompilationFailure``.
package func compiledLibrary(
  _ source: String,
  language: String = "c",
  name: String,
  in directory: String,
  options: [String] = ["-O1"]
) throws -> String {
  let (file, library) = ("\(directory)/\(name).\(language)", "\(directory)/\(name).so")
  try source.write(toFile: file, atomically: true, encoding: .utf8)
  // Both compilers are part of the Swift toolchain.
  let command = language == "swift" ? ["swiftc", "-emit-library"] : ["clang", "-shared", "-fPIC"]
  let words = command + options + ["-o", library, file]
  let child = try ChildProcess("/usr/bin/env", words, keepsErrors: true)
  guard child.hasExited, child.status == 0 else { throw CompilationFailure(description: child.errors) }
  return library
}
