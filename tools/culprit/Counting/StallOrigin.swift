import CulpritStallRecord

/// The origin of a recording's stalls. Its names serve for selection and counting.
package struct StallOrigin: Hashable, Sendable {
  let host: String
  /// The name of the executable.
  let service: String
  /// In hexadecimal digits.
  let build: String

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
