import Foundation
import Testing

extension Trait where Self == ConditionTrait {
  /// Skips the test if one of `programs` is not installed in /usr/bin.
  package static func needs(_ programs: String...) -> ConditionTrait {
    let missing = programs.filter { access("/usr/bin/\($0)", X_OK) != 0 }
    return .enabled(if: missing.isEmpty, "\(missing.joined(separator: ", ")) not installed")
  }
}
