import ChaparCore

/// An answer as the platform writes it: `{"ref"}` of a message that it took, or `{"error"}`.
///
/// Read defensively: whatever stands in between may answer as well.
struct SMSAnswer {
    let status: Int
    /// The platform's id of the message.
    let reference: String?
    /// The platform's word for what is wrong.
    let word: String?

    init(_ answer: HTTPAnswer) {
        status = answer.status
        let json = try? JSONValue(parsing: answer.body)
        reference = json?["ref"]?.stringValue
        word = json?["error"]?.stringValue
    }
}
