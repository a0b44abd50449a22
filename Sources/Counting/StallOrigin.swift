import CulpritStallRecord

/// Where the stalls of a recording are from, by the names that they are chosen and counted by.
package struct StallOrigin: Hashable, Sendable {
  /// The name of the host.
  let host: String
  /// The name of the executable.
  let service: String
  /// The build-id of the executable, in hexadecimal digits.
  let build: String

  /// Where the stalls of `recording` are from.
  package init(_ recording: Recording) {
    let process = recording.process
    host = Self.known(process?.host)
    service = Self.known(process?.name)
    let module = recording.modules.first { $0.path == process?.executable }
    build = Self.known(module.map { hexadecimal($0.buildID) })
  }

  private static func known(_ name: String?) -> String {
    name.flatMap { $0.isEmpty ? nil : $0 } ?? StallSelection.unknown
  }
}
