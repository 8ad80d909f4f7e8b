internal import ChaparCore

/// An answer of the control API.
struct ControlAnswer: Sendable {
    var status = 200
    var body: JSONValue

    /// The refusal of a request from a web page, or for another host.
    static let foreign = ControlAnswer(
        status: 403,
        body: [
            "error":
                "Only programs of this machine control the simulators: the request is for another host or of a web page."
        ]
    )
}
