internal import Foundation

/// The decoded fields of a form or a query; of a repeated name the last value counts.
package enum FormFields {
    /// Returns the fields; nil when the text is no form: a pair without `=`, or an invalid escape.
    package static func parse(_ text: String) -> [String: String]? {
        var fields: [String: String] = [:]
        for pair in text.split(separator: "&") {
            let sides = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, let name = decode(sides[0]), let value = decode(sides[1]), !name.isEmpty else {
                return nil
            }
            fields[name] = value
        }
        return fields
    }

    private static func decode(_ text: Substring) -> String? {
        text.replacing("+", with: " ").removingPercentEncoding
    }
}
