// A program that sends imports this module and those of its platforms. It gets the model, the client, compositions of
// backends, and the logger.
@_exported public import ChaparComposition
@_exported public import ChaparCore
@_exported public import ChaparHTTP
@_exported public import struct Logging.Logger

#if ObservabilitySupport
    @_exported public import ChaparObservability
#endif
