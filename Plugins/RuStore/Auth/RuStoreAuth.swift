internal import ChaparCore

/// Puts the service token into the requests of the direct API: a bearer in a header field that nothing refreshes.
///
/// The universal API takes it in the body only, where ``RuStoreFrame`` writes it.
enum RuStoreAuth {
    /// Returns the template of all calls; without a token they carry no `authorization`.
    static func template(_ serviceToken: Secret?) -> HTTPCallTemplate {
        var headers: [HTTPHeader] = []
        if let serviceToken { headers.append(HTTPHeader("authorization", "Bearer \(serviceToken.reveal())")) }
        headers.append(HTTPHeader("content-type", "application/json"))
        return HTTPCallTemplate(method: "POST", headers: headers)
    }
}
