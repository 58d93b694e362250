"""What the engine can do on this machine, in words."""

from __future__ import annotations

import json


def version_text() -> str:
    """Return the version, and one line per feature; works without a built engine."""
    try:
        import savemark._engine as engine
    except ModuleNotFoundError:
        import savemark

        return f"savemark {savemark.__version__}\nengine not built: pip install . (needs Rust)"
    return "\n".join([f"savemark {engine.version()}", *feature_lines()])


def feature_lines() -> list[str]:
    """Return one aligned line per feature: available, or why not and what to do."""
    import savemark._engine as engine
    from savemark.run import wheels

    wheels.find()
    features = json.loads(engine.features())
    width = max((len(feature["name"]) for feature in features), default=0)
    return [
        f"  {feature['name']:<{width}}  {'yes' if feature['available'] else 'no '}"
        f"  {feature.get('reason') or ''}".rstrip()
        for feature in features
    ]
