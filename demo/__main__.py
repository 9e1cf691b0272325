"""python -m demo"""

from demo.run import main

if __name__ == "__main__":
    raise SystemExit(main())
