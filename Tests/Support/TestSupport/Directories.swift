import Foundation

/// The path of a new directory, which is removed with this object. As a property of a suite, it provides a directory
/// for each test.
@propertyWrapper
package final class TemporaryDirectory: Sendable {
  package let wrappedValue: String

  package init() {
    wrappedValue = NSTemporaryDirectory() + "culprit-test-\(UUID().uuidString.prefix(8))"
    try? FileManager.default.createDirectory(atPath: wrappedValue, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: wrappedValue) }
}

/// Calls `body` with the path of a new directory, and removes it afterwards.
package func withTemporaryDirectory<Result>(_ body: (String) throws -> Result) rethrows -> Result {
  let directory = TemporaryDirectory()
  return try withExtendedLifetime(directory) { try body(directory.wrappedValue) }
}

/// The sorted names in `directory` that end with `suffix`; empty if there is no directory.
package func fileNames(in directory: String, _ suffix: String = "") -> [String] {
  ((try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []).filter { $0.hasSuffix(suffix) }.sorted()
}
