/// A finding about one field of a request, returned to the caller before sending.
///
/// The field is wrong, or a platform would drop or change it silently.
public struct Finding: Sendable, Hashable {
    /// The field, as a JSON pointer into the request (`#/content/subtitle`).
    public var pointer: String
    /// A stable word for programs.
    public var code: String
    /// A sentence for people.
    public var detail: String

    /// Makes a finding.
    public init(pointer: String, code: String, detail: String) {
        self.pointer = pointer
        self.code = code
        self.detail = detail
    }
}

/// A finding that keeps a message from being sent, as an error of a plugin's encoder.
package struct MessageFault: Error, Sendable {
    /// The finding.
    package let finding: Finding

    package init(_ finding: Finding) { self.finding = finding }

    /// The refusal that the recipients of the message get.
    package var refusal: Refusal { Refusal(finding) }
}

extension Refusal {
    /// Makes the refusal of a message for a finding: nothing was sent, and a repeat would be refused as well.
    package init(_ finding: Finding) {
        self.init(.message, reason: finding.code, detail: finding.detail, advice: .never)
    }
}

extension PushNotification {
    /// Returns one finding for each field that a silent push leaves out.
    ///
    /// - Parameter dropsCategory: Whether the platform's silent push has no category either.
    /// - Returns: The findings, in the order of the fields.
    package func fieldsDroppedWhenSilent(dropsCategory: Bool = false) -> [Finding] {
        let fields = [
            ("title", title != nil), ("subtitle", subtitle != nil), ("body", body != nil), ("sound", sound != nil),
            ("badge", badge != nil), ("image", image != nil), ("click_url", clickURL != nil),
            ("actions", !actions.isEmpty), ("category", dropsCategory && category != nil),
        ]
        return fields.filter(\.1).map { field, _ in
            Finding(
                pointer: "#/content/\(field)",
                code: "dropped_when_silent",
                detail: "A silent push shows nothing: \(field) is left out."
            )
        }
    }
}
